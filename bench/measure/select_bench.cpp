#include "bench/measure/select_bench.h"

#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "bench/measure/laplace.h"
#include "bench/measure/seconds_of.h"
#include "kernel/topk.h"

namespace thinwire::measure {
namespace {

constexpr float kMomentum = 0.9f;

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint32_t magnitude(float x) { return bits_of(x) & 0x7fffffff; }

inline __attribute__((always_inline)) void add_each(MutFloats sum, Floats summand) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += summand[i];
}
void add_plain(MutFloats sum, Floats summand) { add_each(sum, summand); }

// The baseline is vectorized like the kernel.
#if defined(__x86_64__)
[[gnu::target("avx2")]] void add_avx2(MutFloats sum, Floats summand) { add_each(sum, summand); }
void add(MutFloats sum, Floats summand) {
  __builtin_cpu_supports("avx2") ? add_avx2(sum, summand) : add_plain(sum, summand);
}
#else
void add(MutFloats sum, Floats summand) { add_plain(sum, summand); }
#endif

// The obvious implementation without TopK. `copy` is scratch memory of the same length.
void select_by_nth_element(MutFloats gradient, MutFloats residual, std::vector<float>& copy,
                           std::size_t k, Sparse& out) {
  add(residual, gradient);
  std::ranges::fill(gradient, 0.0f);
  std::ranges::transform(residual, copy.begin(), [](float x) { return std::fabs(x); });
  const auto kth = copy.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(copy.begin(), kth, copy.end(), std::greater<>());
  const float bound = *kth;
  auto ties = k - static_cast<std::size_t>(
                      std::count_if(copy.begin(), kth, [&](float x) { return x > bound; }));
  out.clear();
  for (std::size_t i = 0; i < residual.size(); ++i) {
    const float x = std::fabs(residual[i]);
    if (x < bound || (x == bound && ties == 0)) continue;
    ties -= x == bound;
    out.push_back(static_cast<std::uint32_t>(i), std::exchange(residual[i], 0.0f));
  }
}

class Measurement {
 public:
  Measurement(const SelectBenchOptions& options, SelectKernel kernel)
      : options_(options),
        kernel_(kernel),
        fresh_(options.numel),
        gradient_(options.numel),
        residual_(options.numel),
        velocity_(kernel == SelectKernel::momentum ? options.numel : 0),
        copy_(kernel == SelectKernel::nth_element ? options.numel : 0) {}

  SelectResult run(const StepStarted& step_started) {
    SelectResult result;
    result.kernel = kernel_;
    result.reps = options_.reps;
    std::vector<double> adds, selections;
    const int steps = options_.warmup + options_.reps;
    for (int step = 0; step < steps; ++step) {
      step_started(step);
      fill_laplace(fresh_, options_.seed, static_cast<std::uint64_t>(step));
      const bool checked = step == 0 || step == steps - 1;
      const double add_seconds = time_add();
      const double select_seconds = time_select(checked, result.exact);
      if (step < options_.warmup) continue;
      adds.push_back(add_seconds);
      selections.push_back(select_seconds);
      result.rescans += topk_.work().rescans;
    }
    result.seconds = summarize(selections);
    result.add_seconds = summarize(adds);
    result.candidates = topk_.work().candidates;
    result.bytes_per_element =
        (kernel_ == SelectKernel::momentum ? 24 : 16) + (topk_.work().counted ? 12 : 0);
    return result;
  }

 private:
  // Each gradient arrives twice, by r += g and by the kernel: both work on the same memory, and the
  // residual is that of training with gradients of twice the size.
  double time_add() {
    std::ranges::copy(fresh_, gradient_.begin());
    return seconds_of([&] { add(residual_, gradient_); });
  }

  double time_select(bool checked, bool& exact) {
    std::ranges::copy(fresh_, gradient_.begin());
    if (checked) expect();
    const double seconds = seconds_of([&] { select(); });
    if (checked) exact = exact && as_expected();
    expected_ = {};
    if (!velocity_.empty()) {  // entries that were sent lose their momentum
      for (const std::uint32_t i : out_.indices) velocity_[i] = 0;
    }
    return seconds;
  }

  void select() {
    if (kernel_ == SelectKernel::nth_element) {
      select_by_nth_element(gradient_, residual_, copy_, options_.k(), out_);
    } else {
      topk_.select({gradient_, residual_, velocity_, {}, kMomentum, 0, false}, options_.k(), out_);
    }
  }

  // The residual as it must be before the selection, one number at a time.
  void expect() {
    expected_.resize(options_.numel);
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      float d = gradient_[i];
      if (!velocity_.empty()) d = kMomentum * velocity_[i] + d;
      expected_[i] = residual_[i] + d;
    }
  }

  // Checks that selected entries left the residual, that the others did not change, and that the
  // smallest selected entry comes before the largest other one in the order of selection.
  bool as_expected() const {
    if (out_.size() != options_.k()) return false;
    std::uint64_t last_winner = ~std::uint64_t{0}, first_loser = 0;
    std::size_t next = 0;
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      const bool won = next < out_.size() && out_.indices[next] == i;
      if (won && bits_of(out_.values[next++]) != bits_of(expected_[i])) return false;
      if (bits_of(residual_[i]) != (won ? 0 : bits_of(expected_[i]))) return false;
      if (bits_of(gradient_[i]) != 0) return false;
      const std::uint64_t place = std::uint64_t{magnitude(expected_[i])} << 32 |
                                  (~std::uint32_t{0} - static_cast<std::uint32_t>(i));
      if (won) last_winner = std::min(last_winner, place);
      if (!won) first_loser = std::max(first_loser, place);
    }
    return next == out_.size() && (next == expected_.size() || last_winner > first_loser);
  }

  const SelectBenchOptions& options_;
  SelectKernel kernel_;
  std::vector<float> fresh_, gradient_, residual_, velocity_, copy_, expected_;
  kernel::TopK topk_;
  Sparse out_;
};

}  // namespace

std::string_view name_of(SelectKernel kernel) {
  switch (kernel) {
    case SelectKernel::plain:
      return "plain";
    case SelectKernel::momentum:
      return "momentum";
    case SelectKernel::nth_element:
      break;
  }
  return "nth_element";
}

SelectResult measure_select(const SelectBenchOptions& options, SelectKernel kernel,
                            const StepStarted& step_started) {
  return Measurement(options, kernel).run(step_started);
}

}  // namespace thinwire::measure
