// The laws of topk, gtopk and ps, whatever their keys.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "message/sparse_message.h"
#include "testing/allocations.h"
#include "testing/expect.h"
#include "testing/ranks.h"
#include "testing/strategy_driver.h"
#include "testing/strategy_run.h"
#include "thinwire/collective.h"
#include "thinwire/session.h"

namespace thinwire::strategy {
namespace {

const std::vector<std::string> kExchanges = {
    "topk:", "topk:values=fp32,",      "gtopk:",       "gtopk:values=fp32,",
    "ps:",   "ps:values=fp32,keep=1,", "ps:keep=0.5,",
};

test::StrategyRun run_of(std::string spec, int workers) {
  test::StrategyRun run;
  run.spec = std::move(spec);
  run.workers = workers;
  return run;
}

void expect_agreement(const std::vector<test::RankRecord>& records) {
  for (const test::RankRecord& record : records) ASSERT_EQ(record.grads, records[0].grads);
}

class SparseStrategyGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, SparseStrategyGroups, testing::ValuesIn(test::kGroupSizes));

TEST_P(SparseStrategyGroups, AgreeAndConserveEveryStep) {
  for (const std::string& exchange : kExchanges) {
    test::StrategyRun run = run_of(exchange + "density=0.02", GetParam());
    if (run.workers == 1) continue;
    const auto records = test::play(run);
    expect_agreement(records);
    EXPECT_LE(test::imbalance(run, records), test::allowed_imbalance(run.workers)) << run.spec;
    EXPECT_EQ(metric(records, "mass_lost"), 0) << run.spec;
  }
}

TEST_P(SparseStrategyGroups, OfDensityOneAreTheMean) {
  for (const std::string& exchange : kExchanges) {
    test::StrategyRun run = run_of(exchange + "density=1", GetParam());
    test::StrategyRun dense = run;
    dense.spec = "dense";
    EXPECT_EQ(test::play(run)[0].grads, test::play(dense)[0].grads) << run.spec;
  }
}

RC_GTEST_PROP(SparseStrategiesProperty, AgreeAndConserve, ()) {
  test::StrategyRun run;
  run.workers = *rc::gen::inRange(2, 10);
  run.numel = *rc::gen::inRange<std::size_t>(1, 400);
  run.steps = *rc::gen::inRange<std::uint64_t>(1, 6);
  run.spec = *rc::gen::elementOf(kExchanges) +
             "density=" + *rc::gen::element<std::string>("0.001", "0.01", "0.1", "0.3", "0.7");
  // Few distinct values, so that there are ties, zeros and cancellations everywhere.
  const auto spread = *rc::gen::inRange(1, 4);
  run.gradient = [spread](int rank, std::uint64_t step, std::size_t element) {
    const auto block =
        base::philox(5, step << 16 | std::uint64_t(rank), element, base::Purpose::test);
    return static_cast<float>(static_cast<int>(block[0] % (2u * unsigned(spread) + 1)) - spread);
  };
  const auto records = test::play(run);
  for (const test::RankRecord& record : records) RC_ASSERT(record.grads == records[0].grads);
  RC_ASSERT(test::imbalance(run, records) <= test::allowed_imbalance(run.workers));
}

TEST(SparseStrategies, RefuseKeysAndValuesThatAreNotKnown) {
  const auto refusal = [](const char* spec) {
    return std::string(test::must_throw<ConfigError>([&] { make_strategy(spec); }).what());
  };
  EXPECT_TRUE(test::has(refusal("gtopk:residual=retrun"), "did you mean 'return'"));
  EXPECT_TRUE(test::has(refusal("gtopk:residul=paper"), "did you mean 'residual'"));
  for (const char* spec : {"gtopk:shape=tree", "gtopk:shape=butterfly", "gtopk:residual=absorb",
                           "gtopk:index=raw", "topk:index=raw", "topk:residual=paper"}) {
    EXPECT_TRUE(test::has(refusal(spec), std::string(spec).substr(6, 4))) << spec;
  }
}

TEST(SparseStrategies, OneWorkerIsLeftAlone) {
  for (const std::string& exchange : kExchanges) {
    test::StrategyRun run = run_of(exchange + "density=0.01", 1);
    run.plan.sgd = {0.9f, 1e-3f, false};
    const auto records = test::play(run);
    for (std::size_t i = 0; i < run.numel; ++i) {
      ASSERT_EQ(records[0].grads[2][i], test::grid_gradient(0, 2, i));
    }
    test::on_ranks(1, [&](Transport& wire) {
      SessionOptions options;
      options.strategy = run.spec;
      options.run = run.plan;
      const SgdConfig left = Session(wire, options).optimizer_share();
      EXPECT_EQ(left.momentum, 0.9f);
      EXPECT_EQ(left.weight_decay, 1e-3f);
    });
  }
}

TEST(SparseStrategies, ANonFiniteGradientIsSeenByAllAndLeavesNoTrace) {
  for (const std::string& exchange : kExchanges) {
    test::StrategyRun run = run_of(exchange + "density=0.05", 3);
    const auto before = test::play(run);
    run.steps = 4;
    run.gradient = [](int rank, std::uint64_t step, std::size_t element) {
      if (step == 3 && rank == 1 && element == 700) return std::numeric_limits<float>::quiet_NaN();
      return test::grid_gradient(rank, step, element);
    };
    const auto after = test::play(run);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(after[rank].skipped, (std::vector<bool>{false, false, false, true})) << run.spec;
      EXPECT_EQ(after[rank].state, before[rank].state) << run.spec;
    }
  }
}

TEST(SparseStrategies, ASumThatOverflowsIsSkippedByAll) {
  for (const std::string& exchange : kExchanges) {
    test::StrategyRun run = run_of(exchange + "density=0.01", 4);
    run.gradient = [](int, std::uint64_t, std::size_t element) {
      return element == 17 ? 3e38f : 1.0f;
    };
    for (const test::RankRecord& record : test::play(run))
      EXPECT_TRUE(record.skipped[0]) << run.spec;
  }
}

TEST(SparseStrategies, GoesOnFromItsSavedState) {
  for (const std::string& exchange : kExchanges) {
    test::StrategyRun run = run_of(exchange + "density=0.02", 3);
    run.plan.sgd = {0.9f, 1e-3f, true};
    run.steps = 6;
    const auto whole = test::play(run);
    run.steps = 3;
    const auto first = test::play(run);
    std::vector<Payload> states;
    for (const test::RankRecord& record : first) states.push_back(record.state);
    run.steps = 6;
    const auto second = test::play(run, states.data(), 3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(second[rank].state, whole[rank].state) << run.spec;
      EXPECT_EQ(second[rank].grads.back(), whole[rank].grads.back()) << run.spec;
    }
  }
}

TEST(SparseStrategies, RefusesAStateThatIsNotItsOwn) {
  test::StrategyRun run;
  const Payload good = test::play(run)[0].state;
  for (std::size_t length = 0; length < good.size(); length += 97) {
    EXPECT_THROW(make_strategy("topk")->load(Bytes(good).first(length)), WireError) << length;
  }
  Payload longer = good;
  longer.push_back(std::byte{0});
  EXPECT_THROW(make_strategy("topk")->load(longer), WireError);
  Payload other = good;
  other[0] = std::byte{99};
  EXPECT_THROW(make_strategy("topk")->load(other), WireError);
  const std::vector<Payload> states(2, good);
  run.numel = 999;
  EXPECT_THROW(test::play(run, states.data()), WireError);
}

// Expects the directions of momentum SGD of the mean gradient; parameters are 0.5.
void expect_momentum_sgd(const test::StrategyRun& run,
                         const std::vector<test::RankRecord>& records) {
  const SgdConfig& sgd = run.plan.sgd;
  for (std::size_t i = 0; i < run.numel; ++i) {
    double velocity = 0;
    for (std::uint64_t step = 0; step < run.steps; ++step) {
      double gradient = static_cast<double>(sgd.weight_decay) * 0.5;
      for (int rank = 0; rank < run.workers; ++rank) {
        gradient += static_cast<double>(test::grid_gradient(rank, step, i)) / run.workers;
      }
      velocity = static_cast<double>(sgd.momentum) * velocity + gradient;
      const double direction =
          sgd.nesterov ? gradient + static_cast<double>(sgd.momentum) * velocity : velocity;
      ASSERT_NEAR(records[0].grads[step][i], direction, 1e-4) << step << ", " << i;
    }
  }
}

// Momentum before the selection, everything selected.
TEST(SparseStrategies, CorrectedMomentumOfDensityOneIsMomentumSgd) {
  for (const bool nesterov : {false, true}) {
    test::StrategyRun run = run_of("gtopk:density=1", 4);
    run.steps = 5;
    run.plan.sgd = {0.5f, 0.125f, nesterov};  // exact in binary, as the parameters (0.5)
    expect_momentum_sgd(run, test::play(run));
  }
}

SgdConfig sgd_share_of(const char* spec, const SgdConfig& asked) {
  const auto strategy = make_strategy(spec);
  return dynamic_cast<const GradientStrategy&>(*strategy).optimizer_share(asked);
}

TEST(SparseStrategies, TakesOverWhatHasToHappenBeforeTheSelection) {
  const SgdConfig asked{0.9f, 1e-4f, true};
  const SgdConfig corrected = sgd_share_of("gtopk", asked);
  EXPECT_EQ(corrected.momentum, 0);
  EXPECT_EQ(corrected.weight_decay, 0);
  const SgdConfig plain = sgd_share_of("gtopk:momentum=plain", asked);
  EXPECT_EQ(plain.momentum, 0.9f);
  EXPECT_EQ(plain.weight_decay, 0);
  EXPECT_TRUE(plain.nesterov);
}

TEST(SparseStrategies, SmallTensorsAreDenseIfAsked) {
  test::StrategyRun run = run_of("gtopk:density=0.001,small=dense", 4);
  run.plan.sgd = {0.5f, 0.125f, false};
  const auto records = test::play(run);  // its only tensor has one dimension
  expect_agreement(records);
  expect_momentum_sgd(run, records);
  run.shape = {run.numel / 10, 10};
  const auto matrix = test::play(run)[0].grads[0];
  EXPECT_EQ(std::count(matrix.begin(), matrix.end(), 0.0f), 999) << "a matrix is sent sparse";
}

TEST(SparseStrategies, AllocateNothingAfterTheFirstStep) {
  for (const std::string& exchange : kExchanges) {
    if (exchange.starts_with("ps")) continue;  // see ps_test.cpp
    for (const int workers : {4, 5}) {
      test::on_ranks(workers, [&](Transport& wire) {
        const Layout layout{{{"all", 0, {50'000}}}, 50'000};
        std::vector<float> grads(layout.numel), params(layout.numel, 0.5f);
        RunOptions run;
        run.sgd = {0.9f, 1e-4f, false};
        test::StrategyDriver driver(wire, exchange + "density=0.01", layout, run);
        driver.begin(params);
        while (driver.step() < 6) {
          const std::uint64_t step = driver.step();
          for (std::size_t i = 0; i < grads.size(); ++i) {
            grads[i] = test::grid_gradient(wire.rank(), step, i);
          }
          const std::uint64_t before = test::allocations();
          driver.exchange(grads, params);
          if (step > 0) {
            EXPECT_EQ(test::allocations() - before, 0u) << exchange << ", step " << step;
          }
        }
      });
    }
  }
}

std::vector<std::string> warnings(const std::string& spec, std::uint64_t steps) {
  test::StrategyRun run;
  run.spec = spec;
  run.plan.steps = steps;
  return test::warnings_of(run);
}

TEST(SparseStrategies, WarnIfARunIsTooShortForItsDensity) {
  const auto few = warnings("gtopk:density=0.001", 2346);
  ASSERT_EQ(few.size(), 1u);
  EXPECT_NE(few[0].find("about 2.3 times"), std::string::npos) << few[0];
  EXPECT_NE(few[0].find("density=0.0043"), std::string::npos) << few[0];
  EXPECT_TRUE(warnings("gtopk:density=0.01", 2346).empty());
  EXPECT_TRUE(warnings("topk:density=0.001", 6000).empty());  // both workers' picks are applied
  EXPECT_TRUE(warnings("gtopk", 0).empty());                  // a length that is not known
}

TEST(SparseStrategies, SelectsTheShareOfTheWarmUp) {
  test::StrategyRun run = run_of("gtopk:density=0.01,warmup=0.1+0.05", 4);
  run.plan.steps = 3;
  run.plan.steps_per_epoch = 1;
  const auto records = test::play(run);
  const auto changed = [&](std::size_t step) {
    return run.numel - static_cast<std::size_t>(std::count(records[0].grads[step].begin(),
                                                           records[0].grads[step].end(), 0));
  };
  EXPECT_EQ(changed(0), 100u);
  EXPECT_EQ(changed(1), 50u);
  EXPECT_EQ(changed(2), 10u);
  EXPECT_NEAR(metric(records, "all"), (100 + 50 + 10) / 3000.0, 1e-9);
}

}  // namespace
}  // namespace thinwire::strategy
