// What every registered strategy owes a trainer, as seen through Session: walks the list.
#include <gtest/gtest.h>
#include <algorithm>

#include <cmath>
#include <limits>

#include "testing/allocations.h"
#include "testing/ranks.h"
#include "thinwire/session.h"

namespace thinwire::strategy {
namespace {

// A matrix and a bias, as in every network: strategies may treat small tensors differently.
const Layout kLayout{{{"weight", 0, {60, 50}}, {"bias", 3000, {10}}}, 3010};
constexpr float kRate = 0.02f;

// The gradient of |x - target|² / 2, and noise that is another one on every rank.
float gradient(int rank, std::uint64_t step, std::size_t element, float now) {
  const auto target = base::philox(1, 0, element, base::Purpose::test);
  const auto noise =
      base::philox(2, step << 16 | static_cast<std::uint64_t>(rank), element, base::Purpose::test);
  return now - (base::unit_float(target[0]) - 0.5f) + 0.1f * (base::unit_float(noise[0]) - 0.5f);
}

double distance(std::span<const float> params) {
  double sum = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const double apart = gradient(0, 0, i, params[i]);
    sum += apart * apart;
  }
  return std::sqrt(sum);
}

class Optimizer {
 public:
  explicit Optimizer(const SgdConfig& sgd) : sgd_config_(sgd), velocity_(kLayout.numel) {}
  void step(MutFloats params, std::span<const float> grads) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      velocity_[i] = sgd_config_.momentum * velocity_[i] + grads[i];
      params[i] -= kRate * velocity_[i];
    }
  }
  std::vector<float>& velocity() { return velocity_; }

 private:
  SgdConfig sgd_config_;
  std::vector<float> velocity_;
};

struct TrainCase {
  std::string spec;
  int workers = 4;
  std::string engine = "threads";
  std::uint64_t steps = 20;  // of each worker, if all are equally fast
  int bad_rank = -1;         // the rank whose gradient is not finite in step 3
  bool lost = false;         // no gradient is finite anywhere
};

// All that is left of a worker at a checkpoint.
struct Replica {
  std::vector<float> params = std::vector<float>(kLayout.numel, 0.25f);
  std::vector<float> velocity;
  Payload state;
  std::uint64_t step = 0;
  std::uint64_t skipped = 0;
  std::vector<std::uint64_t> fresh;  // allocations of each step
};

void train_rank(const TrainCase& lesson, Transport& wire, Replica& replica, bool resume) {
  SessionOptions options;
  options.strategy = lesson.spec;
  options.check_every = 1;  // throws if replicas in synchronous differ
  options.run.steps = 20;
  options.run.samples = lesson.steps * static_cast<std::uint64_t>(lesson.workers);
  options.run.steps_per_epoch = 10;
  options.run.sgd.momentum = 0.5f;
  Session session(wire, options);
  Optimizer optimizer(session.optimizer_share());
  std::vector<float> grads(kLayout.numel);
  const ModelView model{replica.params, grads, kLayout};
  if (resume) session.load(replica.state), optimizer.velocity() = replica.velocity;
  session.begin(model, replica.step);
  const auto over = [&] {
    if (session.sync_mode() == SyncMode::asynchronous)
      return session.global_samples() >= options.run.samples;
    return session.step() >= lesson.steps;
  };
  while (!over()) {
    const std::uint64_t before = test::allocations();
    wire.sleep(Seconds(1e-3));  // stands for computing: rounds in the background need time to end
    for (std::size_t i = 0; i < grads.size(); ++i) {
      grads[i] = gradient(wire.rank(), session.step(), i, replica.params[i]);
    }
    if (lesson.lost || (wire.rank() == lesson.bad_rank && session.step() == 3)) {
      grads[17] = std::numeric_limits<float>::quiet_NaN();
    }
    if (session.after_backward(model)) optimizer.step(replica.params, grads);
    session.after_step(model, {1, kRate});
    replica.fresh.push_back(test::allocations() - before);
  }
  session.quiesce(model);
  replica.state.clear();
  session.save(replica.state);
  replica.step = session.step();
  replica.velocity = optimizer.velocity();
  session.end(model);
  replica.skipped = session.stats().skipped_steps;
}

std::vector<Replica> learn(const TrainCase& lesson, std::vector<Replica> from = {}) {
  const bool resume = !from.empty();
  from.resize(static_cast<std::size_t>(lesson.workers));
  JoinOptions options;
  options.size = lesson.workers;
  run_workers(lesson.engine, options, [&](Transport& wire) {
    train_rank(lesson, wire, from[static_cast<std::size_t>(wire.rank())], resume);
  });
  return from;
}

bool same(const std::vector<Replica>& a, const std::vector<Replica>& b) {
  return std::ranges::equal(a, b, test::same_bits, &Replica::params, &Replica::params);
}

void expect_agreement(const std::vector<Replica>& replicas) {
  for (const Replica& each : replicas)
    EXPECT_TRUE(test::same_bits(each.params, replicas[0].params));
}

std::vector<std::string> words() {
  std::vector<std::string> out;
  for (const StrategyInfo& entry : strategies()) out.emplace_back(entry.name);
  return out;
}

class EachStrategy : public testing::TestWithParam<std::string> {
 protected:
  SyncMode sync_mode() const { return make_strategy(GetParam())->sync_mode(); }
};
INSTANTIATE_TEST_SUITE_P(All, EachStrategy, testing::ValuesIn(words()),
                         [](const auto& each) { return each.param; });

TEST_P(EachStrategy, OfOneWorkerIsPlainSgd) {
  std::vector<float> params(kLayout.numel, 0.25f), grads(kLayout.numel);
  Optimizer optimizer({.momentum = 0.5f});
  for (std::uint64_t step = 0; step < 20; ++step) {
    for (std::size_t i = 0; i < grads.size(); ++i) grads[i] = gradient(0, step, i, params[i]);
    optimizer.step(params, grads);
  }
  EXPECT_TRUE(test::same_bits(learn({.spec = GetParam(), .workers = 1})[0].params, params));
}

TEST_P(EachStrategy, EndsWithEqualReplicasCloserToTheTarget) {
  const double start = distance(Replica().params);
  for (const int workers : test::kGroupSizes) {
    const auto replicas = learn({.spec = GetParam(), .workers = workers});
    expect_agreement(replicas);
    EXPECT_LT(distance(replicas[0].params), start) << workers << " workers";
  }
}

TEST_P(EachStrategy, RepeatsItself) {
  const auto twice = [&](const std::string& engine) {
    const TrainCase lesson{.spec = GetParam(), .workers = 5, .engine = engine};
    const auto first = learn(lesson);
    EXPECT_TRUE(same(first, learn(lesson))) << engine;
    return first;
  };
  const bool simulated = std::ranges::any_of(
      transport_backends(), [](const TransportBackend& e) { return e.name == "sim"; });
  std::vector<Replica> in_simulation;
  if (simulated) in_simulation = twice("sim");
  if (sync_mode() == SyncMode::asynchronous) return;  // there, real time decides
  const auto on_threads = twice("threads");
  EXPECT_TRUE(!simulated || same(in_simulation, on_threads));
}

TEST_P(EachStrategy, SurvivesAGradientThatIsNotFinite) {
  const auto replicas = learn({.spec = GetParam(), .workers = 3, .bad_rank = 2});
  expect_agreement(replicas);
  EXPECT_TRUE(std::isfinite(distance(replicas[0].params)));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const bool skips = sync_mode() == SyncMode::synchronous || rank == 2;
    EXPECT_EQ(replicas[rank].skipped, skips ? 1u : 0u) << "rank " << rank;
  }
}

TEST_P(EachStrategy, GivesUpAModelThatIsLost) {
  EXPECT_THROW(learn({.spec = GetParam(), .workers = 3, .steps = 1000, .lost = true}), Error);
}

TEST_P(EachStrategy, GoesOnFromItsCheckpoint) {
  const auto half = learn({.spec = GetParam(), .steps = 10});
  const auto resumed = learn({.spec = GetParam()}, half);
  expect_agreement(resumed);
  if (sync_mode() != SyncMode::synchronous) return;
  EXPECT_TRUE(same(resumed, learn({.spec = GetParam()})));
}

TEST_P(EachStrategy, RefusesAForeignCheckpoint) {
  auto replicas = learn({.spec = GetParam(), .steps = 10});
  for (const int change : {-1, +1}) {
    Payload state = replicas[0].state;
    if (state.empty() && change < 0) continue;
    state.resize(state.size() + static_cast<std::size_t>(change));
    EXPECT_THROW(make_strategy(GetParam())->load(state), WireError) << change;
  }
}

TEST_P(EachStrategy, InLockstepAllocatesNothingAfterTheFirstSteps) {
  if (sync_mode() != SyncMode::synchronous) return;
  for (const Replica& each : learn({.spec = GetParam()})) {
    for (std::size_t step = 5; step < each.fresh.size(); ++step) {
      EXPECT_EQ(each.fresh[step], 0u) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace thinwire::strategy
