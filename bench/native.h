// What the baselines have in common: a library's own all-reduce, measured the way
// `thinwire bench allreduce` measures ours and reported as the same JSON line.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::bench {

struct NativeOptions {
  std::size_t numel = 25'000'000;
  int reps = 5;
  Network network;                 // for wire_bound_seconds
  std::string interface = "eth0";  // carries the traffic; its counter tells the bytes
  std::string store;               // an empty directory that all ranks see (Gloo)
};

// The library under measurement, joined with its peers.
class NativeGroup {
 public:
  virtual ~NativeGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void allreduce_sum(std::span<float> data) = 0;
  // Everyone's value, by rank. Also the barrier.
  virtual std::vector<double> allgather(double value) = 0;
};

struct NativeProgram {
  std::string strategy;   // "gloo-native"
  std::string transport;  // "gloo"
  bool needs_store;
  std::unique_ptr<NativeGroup> (*join)(const NativeOptions& options);
};

// A whole main(): 0 ok, 1 the run failed or the sum is wrong, 2 bad usage.
int run_native(int argc, char** argv, const NativeProgram& program);

}  // namespace thinwire::bench
