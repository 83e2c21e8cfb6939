#include "tests/strategy_laws.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/hash.h"
#include "testing/ranks.h"
#include "testing/strategy_driver.h"
#include "testing/toy_training.h"
#include "thinwire/collective.h"
#include "thinwire/strategy.h"

namespace thinwire::laws {
namespace {

constexpr std::size_t kNumel = 30'000;
constexpr std::uint64_t kSteps = 60;

void require_same(Transport& wire, Floats values, std::string_view spec) {
  std::uint64_t bounds[2] = {base::hash64(std::as_bytes(values)), 0};
  bounds[1] = ~bounds[0];
  allreduce_max(wire, std::span(bounds));
  if (bounds[0] != ~bounds[1]) throw std::runtime_error(fmt::format("{}: replicas differ", spec));
}

void train(Transport& wire, const char* spec, float movement) {
  const Layout layout{{{"all", 0, {kNumel}}}, kNumel};
  std::vector<float> grads(kNumel), params(kNumel, static_cast<float>(wire.rank()));
  test::StrategyDriver driver(wire, spec, layout);
  driver.begin(params);
  while (driver.step() < kSteps) {
    const std::uint64_t step = driver.step();
    wire.sleep(Seconds(2e-4 * (1 + wire.rank())));
    driver.exchange(grads, params);
    for (float& value : params) value += movement;
    driver.finish_step(params);
    if (step == kSteps / 2) {  // as before a checkpoint
      driver.quiesce(params);
      driver.save();
    }
  }
  driver.end(params);

  const double mean = (wire.size() - 1) / 2.0 + static_cast<double>(movement) * kSteps;
  if (std::abs(params[kNumel / 2] - mean) > 1e-3) {
    throw std::runtime_error(fmt::format("{}: {} instead of {}", spec, params[kNumel / 2], mean));
  }
  require_same(wire, params, spec);
}

// Every worker's gradient is 1, on every rank in another order of steps: after kSteps all of it has
// come back or is held back.
void serve(Transport& wire, const char* spec) {
  const Layout layout{{{"all", 0, {kNumel}}}, kNumel};
  std::vector<float> grads(kNumel), params(kNumel), sum(kNumel);
  test::StrategyDriver driver(wire, spec, layout);
  driver.begin(params);
  while (driver.step() < kSteps) {
    const std::size_t shift = 17 * static_cast<std::size_t>(wire.rank());
    for (std::size_t i = 0; i < kNumel; ++i) {
      grads[i] = (i + shift) % kSteps == driver.step() ? 1.0f : 0.0f;
    }
    driver.exchange(grads, params);
    require_same(wire, grads, spec);
    for (std::size_t i = 0; i < kNumel; ++i) sum[i] += grads[i];
  }
  const double most = *std::ranges::max_element(sum), least = *std::ranges::min_element(sum);
  if (least < 0 || most > 1 + 1e-6 || most < 0.5) {
    throw std::runtime_error(fmt::format("{}: means from {} to {}", spec, least, most));
  }
}

constexpr std::size_t kBuckets[] = {1, 2, 7};

// Returns the model after a run that meets a gradient that is not finite and is resumed from a
// checkpoint.
std::vector<float> train_toy(Transport& wire, const std::string& spec, std::size_t buckets) {
  const std::uint64_t steps = buckets == 1 ? 10 : 3;  // several buckets take several times longer
  test::ToyTraining training(wire, spec, buckets);
  training.run(steps);
  training.spoil_next_step();
  training.run(steps);
  const bool skips =
      sync_mode_of(*make_strategy(spec)) == SyncMode::synchronous || wire.rank() + 1 == wire.size();
  if (training.skipped_steps() != (skips ? 1 : 0)) {
    throw std::runtime_error(fmt::format("{}, {} buckets: {} steps skipped on rank {}", spec,
                                         buckets, training.skipped_steps(), wire.rank()));
  }
  training.resume(training.checkpoint());
  training.run(steps);
  training.end();
  return {training.params().begin(), training.params().end()};
}

std::vector<float> train_on_threads(int ranks, const std::string& spec, std::size_t buckets) {
  std::vector<float> out;
  test::on_ranks(ranks, [&](Transport& wire) {
    std::vector<float> params = train_toy(wire, spec, buckets);
    if (wire.rank() == 0) out = std::move(params);
  });
  return out;
}

}  // namespace

void check_asynchronous(Transport& wire) {
  // By push-sum a step counts as much as its worker weighs at that time: only standing still leaves
  // the mean as it is.
  train(wire, "gossip:kappa=0", 0);
  train(wire, "gossip:kappa=0,bits=8", 0);
  train(wire, "gossip:trigger=period,period=3,exchange=pair", 0.01f);
  train(wire, "lasgd", 0.01f);
  train(wire, "lasgd:period=3,max=3", 0.01f);
}

void check_server(Transport& wire) {
  serve(wire, "ps");
  serve(wire, "ps:select=magnitude,servers=3");
  serve(wire, "ps:select=mask,keep=1,servers=dedicated");
}

void check_every_strategy(Transport& wire) {
  for (const StrategyInfo& entry : strategies()) {
    const std::string spec(entry.name);
    const SyncMode mode = sync_mode_of(*make_strategy(spec));
    for (const std::size_t buckets : kBuckets) {
      if (buckets > 1 && mode != SyncMode::synchronous) continue;  // model strategies have one
      const std::vector<float> params = train_toy(wire, spec, buckets);
      require_same(wire, params, spec);
      // Where real time decides, no two runs are the same.
      if (wire.rank() != 0 || mode == SyncMode::asynchronous) continue;
      if (!test::same_bits(params, train_on_threads(wire.size(), spec, buckets))) {
        throw std::runtime_error(
            fmt::format("{}, {} buckets: not the result of threads", spec, buckets));
      }
    }
  }
}

}  // namespace thinwire::laws
