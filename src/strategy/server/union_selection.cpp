#include "strategy/server/union_selection.h"
#include "kernel/sparse.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "strategy/common/entries.h"

namespace thinwire::strategy {
namespace {

constexpr float kPerStep = 0.004f;  // by which an element gains weight while it does not come back
constexpr std::uint64_t kOldest = 50;

}  // namespace

void UnionSelection::select(const kernel::Accumulation& accumulation, std::size_t k,
                            const UnionMemory& memory, const Preference& preference,
                            std::uint64_t step, Sparse& out) {
  bool remembers = false;
  for (std::size_t shard = 0; shard < memory.shards(); ++shard) {
    remembers = remembers || !memory.mask(shard).empty();
  }
  if (memory.rule() == SelectionRule::magnitude || !remembers) {
    return select_largest(accumulation, k, out);
  }
  top_k_.select(accumulation, 0, out);                                // only accumulates
  const kernel::Accumulation rest{.gradient = accumulation.gradient,  // all 0 now
                                  .residual = accumulation.residual,
                                  .velocity = {},
                                  .params = {}};
  const float lambda = preference.lambda;
  switch (memory.rule()) {
    case SelectionRule::mask:
      return select_inside_and_out(rest, k, memory, preference.quota, out);
    case SelectionRule::leader:
      return select_preferred(rest.residual, k, memory, out);
    case SelectionRule::frequency:
      return select_weighted(
          rest, k, [&](std::size_t i) { return 1 + lambda * memory.frequencies()[i]; }, out);
    case SelectionRule::age:
      return select_weighted(
          rest, k,
          [&](std::size_t i) {
            const std::uint64_t age = step - memory.last_seen()[i];
            return 1 + (age == 0 ? lambda : 0) +
                   kPerStep * static_cast<float>(std::min(age, kOldest));
          },
          out);
    default:
      return select_boosted(rest, k, memory, 1 + lambda, out);
  }
}

// What is preferred is made larger for the time of the selection.
void UnionSelection::select_boosted(const kernel::Accumulation& rest, std::size_t k,
                                    const UnionMemory& memory, float factor, Sparse& out) {
  saved_.clear();
  saved_.reserve(memory.most_preferred());
  memory.for_each_preferred([&](std::size_t i) {
    saved_.push_back(rest.residual[i]);
    rest.residual[i] *= factor;
  });
  top_k_.select(rest, k, out);
  auto saved = saved_.begin();
  std::size_t at = 0;
  memory.for_each_preferred([&](std::size_t i) {
    while (at < out.size() && out.indices[at] < i) ++at;
    const bool picked = at < out.size() && out.indices[at] == i;
    (picked ? out.values[at] : rest.residual[i]) = *saved++;
  });
}

template <class Weight>
void UnionSelection::select_weighted(const kernel::Accumulation& rest, std::size_t k, Weight weight,
                                     Sparse& out) {
  scores_.resize(rest.residual.size());
  for (std::size_t i = 0; i < scores_.size(); ++i) scores_[i] = rest.residual[i] * weight(i);
  top_k_.select({.gradient = rest.gradient, .residual = scores_, .velocity = {}, .params = {}}, k,
                out);
  for (std::size_t j = 0; j < out.size(); ++j) {
    out.values[j] = std::exchange(rest.residual[out.indices[j]], 0.0f);
  }
}

// The best of what is preferred, and the best of all others (TCS; Ozfatura et al. 2021).
void UnionSelection::select_inside_and_out(const kernel::Accumulation& rest, std::size_t k,
                                           const UnionMemory& memory, double quota, Sparse& out) {
  const auto others = static_cast<std::size_t>(std::ceil(quota * static_cast<double>(k)));
  take_preferred(rest.residual, memory, inside_);
  kernel::cut(inside_, k - std::min(others, k), dropped_);
  top_k_.select(rest, k - inside_.size(), outside_);
  drop_zeros(outside_);  // may stand where something preferred was
  put_dropped_back(rest.residual);
  kernel::merge(inside_, outside_, out);
}

// The leader may have proposed more than are sent now, if density falls.
void UnionSelection::select_preferred(MutFloats residual, std::size_t k, const UnionMemory& memory,
                                      Sparse& out) {
  take_preferred(residual, memory, out);
  kernel::cut(out, k, dropped_);
  put_dropped_back(residual);
}

void UnionSelection::put_dropped_back(MutFloats residual) const {
  for (std::size_t j = 0; j < dropped_.size(); ++j) {
    residual[dropped_.indices[j]] = dropped_.values[j];
  }
}

void UnionSelection::take_preferred(MutFloats residual, const UnionMemory& memory, Sparse& out) {
  out.clear();
  out.reserve(memory.most_preferred());
  dropped_.reserve(memory.most_preferred() + 1);
  memory.for_each_preferred([&](std::size_t i) {
    out.push_back(static_cast<std::uint32_t>(i), std::exchange(residual[i], 0.0f));
  });
}

void UnionSelection::propose(MutFloats zeros, MutFloats residual, std::size_t k,
                             std::vector<std::uint32_t>& indices) {
  top_k_.select({.gradient = zeros, .residual = residual, .velocity = {}, .params = {}}, k,
                outside_);
  for (std::size_t j = 0; j < outside_.size(); ++j) {
    residual[outside_.indices[j]] = outside_.values[j];
  }
  drop_zeros(outside_);
  indices = outside_.indices;
}

}  // namespace thinwire::strategy
