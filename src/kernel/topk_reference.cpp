#include "kernel/topk_reference.h"

#include <algorithm>
#include <numeric>

#include "kernel/magnitude.h"

namespace thinwire::kernel::reference {

Accumulated accumulated(const Accumulation& a, std::size_t i) {
  float d = a.gradient[i];
  if (a.weight_decay != 0) d = d + a.weight_decay * a.params[i];
  if (a.velocity.empty()) return {a.residual[i] + d, 0};
  if (!a.nesterov) {
    const float velocity = a.momentum * a.velocity[i] + d;
    return {a.residual[i] + velocity, velocity};
  }
  const float velocity = a.momentum * (a.velocity[i] + d);
  return {a.residual[i] + (velocity + d), velocity};
}

void accumulate(const Accumulation& a, std::size_t i) {
  const Accumulated now = accumulated(a, i);
  a.residual[i] = now.residual;
  if (!a.velocity.empty()) a.velocity[i] = now.velocity;
  a.gradient[i] = 0;
}

void accumulate(const Accumulation& a) {
  for (std::size_t i = 0; i < a.gradient.size(); ++i) accumulate(a, i);
}

Sparse largest(Floats values, std::size_t k) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::uint32_t i) { return magnitude(values[i]); });
  order.resize(std::min(k, values.size()));
  std::ranges::sort(order);
  Sparse out;
  for (const std::uint32_t i : order) out.push_back(i, values[i]);
  return out;
}

Sparse select(const Accumulation& a, std::size_t k) {
  accumulate(a);
  Sparse out = largest(a.residual, k);
  for (const std::uint32_t i : out.indices) a.residual[i] = 0;
  return out;
}

}  // namespace thinwire::kernel::reference
