// The laws of every registered strategy, tested through Session.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "testing/allocations.h"
#include "testing/ranks.h"
#include "thinwire/session.h"

namespace thinwire::strategy {
namespace {

// Matrices and biases, as in every network: strategies may treat small tensors differently. Enough
// tensors for seven buckets.
Layout make_layout() {
  Layout out;
  const auto add = [&](std::string name, std::vector<std::size_t> shape) {
    out.tensors.push_back({std::move(name), out.numel, std::move(shape)});
    out.numel += out.tensors.back().numel();
  };
  for (int layer = 0; layer < 4; ++layer) {
    add("weight" + std::to_string(layer), {static_cast<std::size_t>(10 + 5 * layer), 40});
    add("bias" + std::to_string(layer), {10});
  }
  return out;
}
const Layout kLayout = make_layout();
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

struct TrainCase {
  std::string spec;
  int workers = 4;
  std::string backend = "threads";
  std::size_t buckets = 1;
  std::uint64_t steps = 20;  // of each worker, if all are equally fast
  int bad_rank = -1;         // the rank whose gradient is not finite in step 3
  bool lost = false;         // no gradient of any rank is finite
};

// The state and the model of a worker at a checkpoint.
struct Replica {
  std::vector<float> params = std::vector<float>(kLayout.numel, 0.25f);
  std::vector<float> velocity;
  Payload state;
  std::uint64_t step = 0;
  std::uint64_t skipped = 0;
  std::vector<std::uint64_t> fresh;  // how many allocations each step made
};

void train_rank(const TrainCase& run_case, Transport& wire, Replica& replica, bool resume) {
  SessionOptions options;
  options.strategy = run_case.spec;
  options.buckets = run_case.buckets;
  options.check_every = 1;  // throws if replicas of a synchronous strategy differ
  options.run.steps = 20;
  options.run.samples = run_case.steps * static_cast<std::uint64_t>(run_case.workers);
  options.run.steps_per_epoch = 10;
  options.run.sgd.momentum = 0.5f;
  Session session(wire, options);
  std::vector<float> grads(kLayout.numel);
  const ModelView model{replica.params, grads, kLayout};
  if (resume) {
    session.load(replica.state);
    std::ranges::copy(replica.velocity, session.velocity(kLayout.numel).begin());
  }
  session.begin(model, replica.step);
  const auto over = [&] {
    if (session.sync_mode() == SyncMode::asynchronous)
      return session.global_samples() >= options.run.samples;
    return session.step() >= run_case.steps;
  };
  while (!over()) {
    const std::uint64_t before = test::allocations();
    wire.sleep(Seconds(1e-3));  // stands for computing: rounds in the background need time to end
    for (std::size_t i = 0; i < grads.size(); ++i) {
      grads[i] = gradient(wire.rank(), session.step(), i, replica.params[i]);
    }
    if (run_case.lost || (wire.rank() == run_case.bad_rank && session.step() == 3)) {
      grads[17] = std::numeric_limits<float>::quiet_NaN();
    }
    session.apply(model, session.exchange(model), kRate);
    session.finish_step(model, {1, kRate});
    replica.fresh.push_back(test::allocations() - before);
  }
  session.quiesce(model);
  replica.state.clear();
  session.save(replica.state);
  replica.step = session.step();
  const MutFloats velocity = session.velocity(kLayout.numel);
  replica.velocity.assign(velocity.begin(), velocity.end());
  session.end(model);
  replica.skipped = session.stats().skipped_steps;
}

std::vector<Replica> train(const TrainCase& run_case, std::vector<Replica> from = {}) {
  const bool resume = !from.empty();
  from.resize(static_cast<std::size_t>(run_case.workers));
  JoinOptions options;
  options.size = run_case.workers;
  run_workers(run_case.backend, options, [&](Transport& wire) {
    train_rank(run_case, wire, from[static_cast<std::size_t>(wire.rank())], resume);
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
  SyncMode sync_mode() const { return sync_mode_of(*make_strategy(GetParam())); }
};

// The laws hold however the gradient is divided.
constexpr std::size_t kBuckets[] = {1, 2, 7};
INSTANTIATE_TEST_SUITE_P(All, EachStrategy, testing::ValuesIn(words()),
                         [](const auto& each) { return each.param; });

TEST_P(EachStrategy, OfOneWorkerIsPlainSgd) {
  std::vector<float> params(kLayout.numel, 0.25f), grads(kLayout.numel);
  std::vector<float> velocity(kLayout.numel);
  for (std::uint64_t step = 0; step < 20; ++step) {
    for (std::size_t i = 0; i < grads.size(); ++i) grads[i] = gradient(0, step, i, params[i]);
    for (std::size_t i = 0; i < params.size(); ++i) {
      velocity[i] = 0.5f * velocity[i] + grads[i];
      params[i] -= kRate * velocity[i];
    }
  }
  EXPECT_TRUE(test::same_bits(train({.spec = GetParam(), .workers = 1})[0].params, params));
}

void expect_training(const std::string& spec, int workers, std::size_t buckets) {
  const auto replicas = train({.spec = spec, .workers = workers, .buckets = buckets});
  expect_agreement(replicas);
  EXPECT_LT(distance(replicas[0].params), distance(Replica().params))
      << workers << " workers, " << buckets << " buckets";
}

TEST_P(EachStrategy, EndsWithEqualReplicasCloserToTheTarget) {
  for (const int workers : test::kGroupSizes) expect_training(GetParam(), workers, 1);
  for (const int workers : {2, 3, 8}) {
    for (const std::size_t buckets : kBuckets) expect_training(GetParam(), workers, buckets);
  }
}

// Two runs give the same bits: on sim always, on threads unless real time decides.
void expect_repetition(const std::string& spec, std::size_t buckets, SyncMode mode) {
  const auto twice = [&](const std::string& backend) {
    const TrainCase run_case{.spec = spec, .workers = 5, .backend = backend, .buckets = buckets};
    const auto first = train(run_case);
    EXPECT_TRUE(same(first, train(run_case))) << backend << ", " << buckets << " buckets";
    return first;
  };
  const bool simulated = std::ranges::any_of(
      transport_backends(), [](const TransportBackend& e) { return e.name == "sim"; });
  std::vector<Replica> in_simulation;
  if (simulated) in_simulation = twice("sim");
  if (mode == SyncMode::asynchronous) return;
  const auto on_threads = twice("threads");
  EXPECT_TRUE(!simulated || same(in_simulation, on_threads)) << buckets << " buckets";
}

TEST_P(EachStrategy, RepeatsItself) {
  for (const std::size_t buckets : kBuckets) expect_repetition(GetParam(), buckets, sync_mode());
}

TEST_P(EachStrategy, SurvivesAGradientThatIsNotFinite) {
  for (const std::size_t buckets : kBuckets) {
    const auto replicas =
        train({.spec = GetParam(), .workers = 3, .buckets = buckets, .bad_rank = 2});
    expect_agreement(replicas);
    EXPECT_TRUE(std::isfinite(distance(replicas[0].params)));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const bool skips = sync_mode() == SyncMode::synchronous || rank == 2;
      EXPECT_EQ(replicas[rank].skipped, skips ? 1u : 0u) << "rank " << rank;
    }
  }
}

TEST_P(EachStrategy, GivesUpAModelThatIsLost) {
  EXPECT_THROW(train({.spec = GetParam(), .workers = 3, .steps = 1000, .lost = true}), Error);
}

TEST_P(EachStrategy, GoesOnFromItsCheckpoint) {
  for (const std::size_t buckets : kBuckets) {
    const auto half = train({.spec = GetParam(), .buckets = buckets, .steps = 10});
    const auto resumed = train({.spec = GetParam(), .buckets = buckets}, half);
    expect_agreement(resumed);
    if (sync_mode() != SyncMode::synchronous) return;
    EXPECT_TRUE(same(resumed, train({.spec = GetParam(), .buckets = buckets})));
  }
}

void load_alone(const std::string& spec, const Payload& state) {
  test::on_ranks(2, [&](Transport& wire) {
    SessionOptions options;
    options.strategy = spec;
    Session session(wire, options);
    session.load(state);
    std::vector<float> params(kLayout.numel), grads(kLayout.numel);
    session.begin({params, grads, kLayout}, 0);
  });
}

TEST_P(EachStrategy, RefusesAForeignCheckpoint) {
  auto replicas = train({.spec = GetParam(), .steps = 10});
  for (const int change : {-1, +1}) {
    Payload state = replicas[0].state;
    if (state.empty() && change < 0) continue;
    state.resize(state.size() + static_cast<std::size_t>(change));
    EXPECT_THROW(load_alone(GetParam(), state), WireError) << change;
  }
}

TEST_P(EachStrategy, IfSynchronousAllocatesNothingAfterTheFirstSteps) {
  if (sync_mode() != SyncMode::synchronous) return;
  for (const Replica& each : train({.spec = GetParam()})) {
    for (std::size_t step = 5; step < each.fresh.size(); ++step) {
      EXPECT_EQ(each.fresh[step], 0u) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace thinwire::strategy
