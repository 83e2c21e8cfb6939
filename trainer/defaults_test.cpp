// Law 9: with the hyper-parameters that suit `dense`, every strategy with no keys given reaches the
// accuracy of `dense` to within a point, and none diverges. All runs are in simulated time, so that
// a result does not depend on the machine's load.
//
// `make test` takes the cases of InShort; `make defaults` takes those of AtLength, in hours.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <utility>
#include <vector>

#include "thinwire/launch.h"
#include "thinwire/strategy.h"
#include "trainer/test_run.h"
#include "trainer/train.h"

namespace thinwire::trainer {
namespace {

struct Case {
  const char* model;
  int workers;
  double epochs;
  double learning_rate;
  const char* network;
  // How many times slower rank 1 is. With a straggler, or a network on which an exchange takes
  // longer than a step, only strategies that exchange models are of interest.
  double slowness = 1;
  bool models_only = false;
};

std::ostream& operator<<(std::ostream& out, const Case& chosen) {
  return out << chosen.model << " on " << chosen.workers << " workers, " << chosen.epochs
             << " epochs, network " << chosen.network << ", slowness " << chosen.slowness;
}

constexpr double kOnePoint = 0.01;
constexpr std::size_t kGlobalBatch = 128;
constexpr const char* kFast = "1gbit,0.1ms";
constexpr const char* kSlow =
    "100mbit,1ms";  // a dense exchange takes 7 steps of the mlp, 13 of lenet

constexpr Case kFew[] = {
    {"mlp", 2, 1, 0.05, kFast},          {"mlp", 8, 3, 0.05, kFast},
    {"lenet", 4, 1, 0.05, kFast},        {"resnet8", 2, 1, 0.2, kFast},
    {"mlp", 4, 3, 0.05, kFast, 3, true}, {"mlp", 4, 3, 0.05, kSlow, 1, true},
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& [model, rate] : {std::pair{"mlp", 0.05}, {"lenet", 0.05}, {"resnet8", 0.2}}) {
    for (const int workers : {2, 4, 8}) {
      for (const double epochs : {1, 6}) {
        cases.push_back({model, workers, epochs, rate, kFast});
        cases.push_back({model, workers, epochs, rate, kFast, 3, true});
        cases.push_back({model, workers, epochs, rate, kSlow, 1, true});
      }
    }
  }
  return cases;
}

TrainResult train_case(const Case& chosen, std::string_view strategy) {
  const auto workers = static_cast<std::size_t>(chosen.workers);
  TrainOptions options = options_for(kGlobalBatch / workers, 0);
  options.model = chosen.model;
  options.learning_rate = chosen.learning_rate;
  options.lr_schedule = "cosine";
  options.session.strategy = strategy;
  options.steps =
      total_steps({.epochs = chosen.epochs}, digits().train->size(), options.batch, chosen.workers);
  options.step_time = Seconds(0.02);
  if (chosen.slowness != 1) options.slow = {{1, chosen.slowness}};
  return run(options, chosen.workers, "sim", digits(), chosen.network).result;
}

bool exchanges_models(std::string_view strategy) {
  return sync_mode_of(*make_strategy(strategy)) != SyncMode::synchronous;
}

class Defaults : public testing::TestWithParam<Case> {};

TEST_P(Defaults, KeepTheAccuracyOfDense) {
  if (!has_simulator()) GTEST_SKIP() << "sim is not in this build";
  const Case& chosen = GetParam();
  const double dense = train_case(chosen, "dense").test.accuracy;
  fmt::print("dense {:.2f} %\n", 100 * dense);
  for (const StrategyInfo& strategy : strategies()) {
    if (strategy.name == "dense") continue;
    if (chosen.models_only && !exchanges_models(strategy.name)) continue;
    const TrainResult result = train_case(chosen, strategy.name);
    fmt::print("{} {:.2f} %, {:.1f} times fewer bytes\n", strategy.name, 100 * result.test.accuracy,
               result.dense_bytes_per_worker_step / result.bytes_per_worker_step);
    EXPECT_GE(result.test.accuracy, dense - kOnePoint) << strategy.name;
    EXPECT_TRUE(result.replicas_identical) << strategy.name;
    EXPECT_EQ(result.skipped_steps, 0u) << strategy.name;
  }
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& chosen = info.param;
  return fmt::format("{}_{}workers_{}epochs{}{}", chosen.model, chosen.workers, chosen.epochs,
                     chosen.slowness == 1 ? "" : "_straggler",
                     chosen.network == kSlow ? "_slownetwork" : "");
}

INSTANTIATE_TEST_SUITE_P(InShort, Defaults, testing::ValuesIn(kFew), name_of);
INSTANTIATE_TEST_SUITE_P(AtLength, Defaults, testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace thinwire::trainer
