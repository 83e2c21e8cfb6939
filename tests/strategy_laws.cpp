#include "tests/strategy_laws.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "thinwire/collective.h"
#include "thinwire/hash.h"
#include "thinwire/strategy.h"

namespace thinwire::laws {
namespace {

constexpr std::size_t kNumel = 30'000;
constexpr std::uint64_t kSteps = 60;

void train(Transport& wire, const char* spec, float movement) {
  const Layout layout{{{"all", 0, {kNumel}}}, kNumel};
  std::vector<float> grads(kNumel), params(kNumel, static_cast<float>(wire.rank()));
  const auto strategy = make_strategy(spec);
  Stats stats;
  StepContext context{0, {params, grads, layout}, wire, stats};
  strategy->begin(context);
  for (; context.step < kSteps; ++context.step) {
    wire.sleep(Seconds(2e-4 * (1 + wire.rank())));
    strategy->after_backward(context);
    for (float& value : params) value += movement;
    context.samples = 1;
    strategy->after_step(context);
    if (context.step == kSteps / 2) {  // as before a checkpoint
      Payload state;
      strategy->settle(context);
      strategy->save(state);
    }
  }
  strategy->end(context);

  const double mean = (wire.size() - 1) / 2.0 + static_cast<double>(movement) * kSteps;
  if (std::abs(params[kNumel / 2] - mean) > 1e-3) {
    throw std::runtime_error(fmt::format("{}: {} instead of {}", spec, params[kNumel / 2], mean));
  }
  std::uint64_t bounds[2] = {hash64(std::as_bytes(std::span(params))), 0};
  bounds[1] = ~bounds[0];
  allreduce_max(wire, std::span(bounds));
  if (bounds[0] != ~bounds[1]) throw std::runtime_error(fmt::format("{}: replicas differ", spec));
}

}  // namespace

void check_free_pace(Transport& wire) {
  // By push-sum a step counts as much as its worker weighs at that time: only standing still leaves
  // the mean as it is.
  train(wire, "gossip:kappa=0", 0);
  train(wire, "gossip:trigger=period,period=3,exchange=pair", 0.01f);
  train(wire, "lasgd", 0.01f);
  train(wire, "lasgd:period=3,max=3", 0.01f);
}

}  // namespace thinwire::laws
