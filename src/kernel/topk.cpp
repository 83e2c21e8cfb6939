// Exact selection in one pass over memory. The threshold of the last step is a good estimate for
// this one: during the pass over the residual, entries above a slightly lower threshold are
// collected as candidates, and the k largest are found among these few. An estimate that was too
// high costs a second, read-only pass.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernel/candidates.h"
#include "kernel/cutoff.h"
#include "kernel/magnitude.h"
#include "kernel/topk.h"
#include "kernel/topk_passes.h"
#include "kernel/topk_reference.h"

namespace thinwire::kernel {

using kernel::Candidates;
using kernel::Cutoff;
using kernel::CutoffSearch;
using kernel::Found;

namespace {

void check(const Accumulation& a) {
  const std::size_t n = a.gradient.size();
  if (a.residual.size() != n || (!a.velocity.empty() && a.velocity.size() != n) ||
      ((a.weight_decay != 0 || !a.params.empty()) && a.params.size() != n)) {
    throw std::invalid_argument(
        "TopK: the spans have different lengths (gradient " + std::to_string(n) + ", residual " +
        std::to_string(a.residual.size()) + ", velocity " + std::to_string(a.velocity.size()) +
        ", params " + std::to_string(a.params.size()) + ")");
  }
  if (n > std::uint64_t{1} << 32) {
    throw std::invalid_argument("TopK: the vector is too long (" + std::to_string(n) +
                                " elements; at most 2^32)");
  }
}

template <class Pass>
void for_each_block(std::size_t n, Pass pass) {
  for (std::size_t begin = 0; begin < n; begin += Candidates::kBlock) {
    pass(begin, std::min(n, begin + Candidates::kBlock));
  }
}

// Returns a threshold that a little more than k of n elements are expected to reach, estimated from
// a sample of cache lines. value_at(i) returns element i. `memory` is scratch for the sample and
// holds at least n / 32 floats.
template <class ValueAt>
std::uint32_t sample_threshold(std::size_t n, std::size_t k, float* memory, ValueAt value_at) {
  constexpr std::size_t kLine = 16;  // floats
  // One cache line of 397 is sampled, or more if the sample would contain fewer than 64 of the k
  // largest. The bounds are odd, so that samples do not align with the rows of a matrix.
  const std::size_t stride = kLine * std::clamp<std::size_t>(k / 64, 33, 397);
  std::size_t sampled = 0;
  for (std::size_t line = 0; line + kLine <= n; line += stride) {
    if (sampled + kLine > n / 32) break;
    for (std::size_t i = line; i < line + kLine; ++i) memory[sampled++] = value_at(i);
  }
  // The rank allows for three standard deviations of the sampling error, and a little more for very
  // small k.
  const double expected = static_cast<double>(sampled) * static_cast<double>(k) /
                          static_cast<double>(std::max<std::size_t>(n, 1));
  const auto rank = static_cast<std::size_t>(1.2 * expected + 3 * std::sqrt(expected) + 4);
  return rank <= sampled ? kernel::find_cutoff({memory, sampled}, rank).magnitude : 0;
}

// Estimates the threshold of the next call from the result of the last one.
class Guess {
 public:
  // Returns whether the next call is similar enough to the last one to use its threshold.
  bool fits(std::size_t n, std::size_t k) const { return n == n_ && k <= 2 * k_ && k_ <= 2 * k; }

  std::uint32_t threshold() const {
    if (magnitude_ >= kInfinity) return kInfinity - 1;
    const float bound = std::bit_cast<float>(magnitude_) * (1 - margin_);
    return kernel::magnitude(bound);
  }

  void remember(std::size_t n, std::size_t k, std::uint32_t kth_magnitude) {
    n_ = n;
    k_ = k;
    magnitude_ = kth_magnitude;
  }

  // Adapts the margin after a call in which `passed` entries reached the estimated threshold. The
  // goal is 1.5 k entries, more for a small k, whose random variation is larger. The number of
  // entries between the estimate and the true threshold is nearly proportional to the margin.
  void adapt(std::size_t passed, std::size_t k) {
    const double excess = static_cast<double>(passed) / static_cast<double>(k) - 1;
    const double wanted = 0.5 + 4 / std::sqrt(static_cast<double>(k));
    const double factor = excess > 0 ? wanted / excess : kMostGrowth;
    margin_ *= static_cast<float>(std::clamp(factor, 0.75, kMostGrowth));
    margin_ = std::clamp(margin_, 0.001f, 0.3f);
  }

 private:
  static constexpr std::uint32_t kInfinity = 0x7f800000;
  static constexpr double kMostGrowth = 2;

  std::size_t n_ = 0;
  std::size_t k_ = 0;
  std::uint32_t magnitude_ = 0;
  float margin_ = 0.1f;
};

}  // namespace

struct TopK::State {
  Work work;
  Candidates candidates;
  Guess guess;

  void select_few(const Accumulation& a, std::size_t k, Sparse& out);
  void select_many(const Accumulation& a, std::size_t k, Sparse& out);

 private:
  void rescan(Floats residual, std::size_t k);
  std::uint32_t first_threshold(const Accumulation& a, std::size_t k);
};

TopK::TopK() : state_(std::make_unique<State>()) {}
TopK::~TopK() = default;
TopK::TopK(TopK&&) noexcept = default;
TopK& TopK::operator=(TopK&&) noexcept = default;

const TopK::Work& TopK::work() const noexcept { return state_->work; }

void TopK::select(const Accumulation& accumulation, std::size_t k, Sparse& out) {
  check(accumulation);
  const std::size_t n = accumulation.gradient.size();
  k = std::min(k, n);
  out.clear();
  out.indices.reserve(k);
  out.values.reserve(k);
  state_->work = {};
  state_->candidates.reserve(n);
  const bool few = static_cast<double>(k) <= Candidates::kMostDensity * static_cast<double>(n);
  few ? state_->select_few(accumulation, k, out) : state_->select_many(accumulation, k, out);
}

namespace {

// Appends the selected entries to `out` and sets them to 0 in the residual.
void emit(const Found& winners, const Accumulation& a, Sparse& out) {
  out.indices.insert(out.indices.end(), winners.indices, winners.indices + winners.size);
  out.values.insert(out.values.end(), winners.values, winners.values + winners.size);
  for (const std::uint32_t i : std::span(winners.indices, winners.size)) a.residual[i] = 0;
}

}  // namespace

std::uint32_t TopK::State::first_threshold(const Accumulation& a, std::size_t k) {
  const std::size_t n = a.gradient.size();
  if (guess.fits(n, k)) return guess.threshold();
  return sample_threshold(n, k, candidates.scratch().values, [&](std::size_t i) {
    return kernel::reference::accumulated(a, i).residual;
  });
}

void TopK::State::select_few(const Accumulation& a, std::size_t k, Sparse& out) {
  const std::size_t n = a.gradient.size();
  const bool guessed = guess.fits(n, k);
  candidates.start(k, k > 0 ? first_threshold(a, k) : kernel::kAboveAll);
  for_each_block(n, [&](std::size_t begin, std::size_t end) {
    kernel::accumulate(a, begin, end, candidates.threshold(), candidates.found());
    candidates.make_room();
  });
  work.candidates = candidates.passed();
  if (k == 0) return;
  if (candidates.size() < k) rescan(a.residual, k);

  Found& found = candidates.found();
  Cutoff cutoff = kernel::find_cutoff({found.values, found.size}, k);
  if (guessed) guess.adapt(work.candidates, k);
  guess.remember(n, k, cutoff.magnitude);
  kernel::keep_largest(found, cutoff);
  emit(found, a, out);
}

// Repeats the collection after a threshold that was too high: with a threshold from a sample and,
// if that is too high as well, with none. In the last case the list fills up and raises its
// threshold itself.
void TopK::State::rescan(Floats residual, std::size_t k) {
  std::uint32_t threshold = sample_threshold(residual.size(), k, candidates.scratch().values,
                                             [&](std::size_t i) { return residual[i]; });
  for (;; threshold = 0) {
    ++work.rescans;
    candidates.start(k, threshold);
    for_each_block(residual.size(), [&](std::size_t begin, std::size_t end) {
      kernel::collect(residual, begin, end, candidates.threshold(), kernel::kMagnitudeMask,
                      candidates.found());
      candidates.make_room();
    });
    if (candidates.size() >= k) return;
  }
}

// Selects when k is so large that a list of candidates would not be short. Three rounds of counting
// find the cutoff, the first of them during the accumulation; a last pass collects the selected
// entries. The time does not depend on the data.
void TopK::State::select_many(const Accumulation& a, std::size_t k, Sparse& out) {
  const std::size_t n = a.gradient.size();
  CutoffSearch search(k);
  for_each_block(n, [&](std::size_t begin, std::size_t end) {
    Found nothing = candidates.scratch();
    kernel::accumulate(a, begin, end, kernel::kAboveAll, nothing);
    search.count(a.residual.subspan(begin, end - begin));
  });
  search.close_round();
  for (int round = 1; round < CutoffSearch::kRounds; ++round) {
    for_each_block(n, [&](std::size_t begin, std::size_t end) {
      Found relevant = candidates.scratch();
      kernel::collect(a.residual, begin, end, search.low(), search.high(), relevant);
      search.count({relevant.values, relevant.size});
    });
    search.close_round();
  }
  Cutoff cutoff = search.cutoff();
  guess.remember(n, k, cutoff.magnitude);
  for_each_block(n, [&](std::size_t begin, std::size_t end) {
    Found winners = candidates.scratch();
    kernel::collect(a.residual, begin, end, cutoff.magnitude, kernel::kMagnitudeMask, winners);
    kernel::keep_largest(winners, cutoff);
    emit(winners, a, out);
  });
  work.candidates = n;
  work.counted = true;
}

}  // namespace thinwire::kernel
