// The timer of the benchmarks that compare a kernel with r += g.
//
// They do not use Google Benchmark, which times one function in a batch of its own: here each
// repetition measures r += g and then the kernel, in turns and on the same memory, so that the
// ratio of their medians does not depend on how busy the machine is.
#pragma once

#include <chrono>

namespace thinwire::measure {

// Returns how many seconds of real time work() takes.
template <class Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace thinwire::measure
