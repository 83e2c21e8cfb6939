#include "strategy/server/union_selection.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernel/sparse.h"
#include "strategy/common/entries.h"

namespace thinwire::strategy {

Preference bounded(const Preference& preference, double density) {
  constexpr double kFull = 0.01;  // from this density on the preference is as asked for
  const double share = std::min(1.0, std::sqrt(density / kFull));
  return {static_cast<float>(preference.lambda * share), 1 - (1 - preference.quota) * share};
}

void UnionSelection::select(const kernel::Accumulation& accumulation, std::size_t k,
                            const UnionMemory& memory, const Preference& preference, Sparse& out) {
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
  if (memory.rule() == SelectionRule::mask) {
    return select_inside_and_out(rest, k, memory, preference.quota, out);
  }
  select_boosted(rest, k, memory, 1 + preference.lambda, out);
}

// Multiplies the preferred entries by the factor for the time of the selection.
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

// Takes the largest of the preferred entries and the largest of all others (TCS; Ozfatura et al.
// 2021).
void UnionSelection::select_inside_and_out(const kernel::Accumulation& rest, std::size_t k,
                                           const UnionMemory& memory, double quota, Sparse& out) {
  const auto others = static_cast<std::size_t>(std::ceil(quota * static_cast<double>(k)));
  take_preferred(rest.residual, memory, inside_);
  kernel::cut(inside_, k - std::min(others, k), dropped_);
  top_k_.select(rest, k - inside_.size(), outside_);
  drop_zeros(outside_);  // a 0 may stand where a preferred entry was taken
  put_dropped_back(rest.residual);
  kernel::merge(inside_, outside_, out);
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

}  // namespace thinwire::strategy
