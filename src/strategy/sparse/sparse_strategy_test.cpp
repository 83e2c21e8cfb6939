// The laws of topk, gtopk and ps, whatever their keys.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "message/sparse_message.h"
#include "testing/allocations.h"
#include "testing/expect.h"
#include "testing/ranks.h"
#include "testing/runtimes.h"
#include "testing/strategy_driver.h"
#include "testing/strategy_run.h"
#include "thinwire/collective.h"
#include "thinwire/session.h"

namespace thinwire::strategy {
namespace {

const std::vector<std::string> kExchanges = {
    "topk:",  "topk:values=fp32,",      "topk:values=int5,",
    "gtopk:", "gtopk:values=fp32,",     "gtopk:values=int5,",
    "ps:",    "ps:values=fp32,keep=1,", "ps:keep=0.5,",
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
    const auto records = test::run_strategy(run);
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
    EXPECT_EQ(test::run_strategy(run)[0].grads, test::run_strategy(dense)[0].grads) << run.spec;
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
  const auto records = test::run_strategy(run);
  for (const test::RankRecord& record : records) RC_ASSERT(record.grads == records[0].grads);
  RC_ASSERT(test::imbalance(run, records) <= test::allowed_imbalance(run.workers));
}

TEST(SparseStrategies, RefuseKeysAndValuesThatAreNotKnown) {
  const auto refusal = [](const char* spec) {
    return std::string(test::must_throw<ConfigError>([&] { make_strategy(spec); }).what());
  };
  EXPECT_TRUE(test::has(refusal("gtopk:residual=retrun"), "did you mean return"));
  EXPECT_TRUE(test::has(refusal("gtopk:residul=paper"), "did you mean residual"));
  for (const char* spec : {"gtopk:shape=tree", "gtopk:shape=butterfly", "gtopk:residual=absorb",
                           "gtopk:index=raw", "topk:index=raw", "topk:residual=paper"}) {
    EXPECT_TRUE(test::has(refusal(spec), std::string(spec).substr(6, 4))) << spec;
  }
}

TEST(SparseStrategies, OneWorkerIsLeftAlone) {
  for (const std::string& exchange : kExchanges) {
    test::StrategyRun run = run_of(exchange + "density=0.01", 1);
    run.options.sgd = {0.9f, 1e-3f, false};
    const auto records = test::run_strategy(run);
    for (std::size_t i = 0; i < run.numel; ++i) {
      ASSERT_EQ(records[0].grads[2][i], test::grid_gradient(0, 2, i));
    }
    test::on_ranks(1, [&](Transport& wire) {
      SessionOptions options;
      options.strategy = run.spec;
      options.run = run.options;
      const SgdConfig left = Session(wire, options).optimizer_share();
      EXPECT_EQ(left.momentum, 0.9f);
      EXPECT_EQ(left.weight_decay, 1e-3f);
    });
  }
}

TEST(SparseStrategies, ANonFiniteGradientIsSeenByAllAndLeavesNoTrace) {
  for (const std::string& exchange : kExchanges) {
    test::StrategyRun run = run_of(exchange + "density=0.05", 3);
    const auto before = test::run_strategy(run);
    run.steps = 4;
    run.gradient = [](int rank, std::uint64_t step, std::size_t element) {
      if (step == 3 && rank == 1 && element == 700) return std::numeric_limits<float>::quiet_NaN();
      return test::grid_gradient(rank, step, element);
    };
    const auto after = test::run_strategy(run);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(after[rank].skipped, (std::vector<bool>{false, false, false, true})) << run.spec;
      EXPECT_EQ(after[rank].state, before[rank].state) << run.spec;
    }
  }
}

TEST(SparseStrategies, ASumThatOverflowsIsSkippedByAllAndNothingIsLost) {
  std::vector<std::string> exchanges = kExchanges;
  exchanges.insert(exchanges.end(),
                   {"topk:small=dense,", "ps:servers=3,", "ps:servers=dedicated,"});
  for (const std::string& exchange : exchanges) {
    for (const char* density : {"density=0.01", "density=1"}) {
      test::StrategyRun run = run_of(exchange + density, 4);
      run.steps = 1;
      run.gradient = [](int, std::uint64_t, std::size_t element) {
        return element == 17 ? 3e38f : 1e37f;
      };
      const auto records = test::run_strategy(run);
      const int first = serving_ranks_of(*make_strategy(run.spec), run.workers);
      for (int rank = first; rank < run.workers; ++rank) {
        const test::RankRecord& record = records[static_cast<std::size_t>(rank)];
        EXPECT_TRUE(record.skipped[0]) << run.spec;
        const auto held = test::held_back(record, rank, run.numel);
        for (std::size_t i = 0; i < run.numel; ++i) {
          ASSERT_FLOAT_EQ(held[i], run.gradient(rank, 0, i)) << run.spec << ", element " << i;
        }
      }
      EXPECT_EQ(metric(records, "coverage"), 0) << run.spec;
    }
  }
}

// A value that is too large for bf16 comes back nearly as it was, and finite.
TEST(SparseStrategies, APickThatOverflowsLeavesNoNan) {
  for (const char* spec : {"topk:density=0.01", "gtopk:density=0.01", "ps:density=0.01"}) {
    test::StrategyRun run = run_of(spec, 2);
    run.steps = 1;
    run.gradient = [](int, std::uint64_t, std::size_t element) {
      return element == 17 ? -std::numeric_limits<float>::max() : 1;
    };
    for (const test::RankRecord& record : test::run_strategy(run)) {
      EXPECT_TRUE(record.skipped[0]) << spec;
      EXPECT_EQ(test::residual_of(record)[17], -std::numeric_limits<float>::max()) << spec;
    }
  }
}

TEST(SparseStrategies, GoesOnFromItsSavedState) {
  for (const std::string& exchange : kExchanges) {
    test::StrategyRun run = run_of(exchange + "density=0.02", 3);
    run.options.sgd = {0.9f, 1e-3f, true};
    run.steps = 6;
    const auto whole = test::run_strategy(run);
    run.steps = 3;
    const auto first = test::run_strategy(run);
    std::vector<Payload> states;
    for (const test::RankRecord& record : first) states.push_back(record.state);
    run.steps = 6;
    const auto second = test::run_strategy(run, states.data(), 3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(second[rank].state, whole[rank].state) << run.spec;
      EXPECT_EQ(second[rank].grads.back(), whole[rank].grads.back()) << run.spec;
    }
  }
}

TEST(SparseStrategies, RefusesAStateThatIsNotItsOwn) {
  test::StrategyRun run;
  const Payload good = test::run_strategy(run)[0].state;
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
  EXPECT_THROW(test::run_strategy(run, states.data()), WireError);
}

// Expects the directions of momentum SGD of the mean gradient; parameters are 0.5.
void expect_momentum_sgd(const test::StrategyRun& run,
                         const std::vector<test::RankRecord>& records) {
  const SgdConfig& sgd = run.options.sgd;
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

// Momentum is applied before the selection, and all entries are selected.
TEST(SparseStrategies, CorrectedMomentumOfDensityOneIsMomentumSgd) {
  for (const bool nesterov : {false, true}) {
    test::StrategyRun run = run_of("gtopk:density=1", 4);
    run.steps = 5;
    run.options.sgd = {0.5f, 0.125f, nesterov};  // exact in binary, as the parameters (0.5)
    expect_momentum_sgd(run, test::run_strategy(run));
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

// The momentum of a coordinate that is sent in every step continues, or starts again each time.
TEST(SparseStrategies, AreAskedWhetherACoordinateLosesItsMomentum) {
  test::StrategyRun run;
  run.workers = 2;
  run.numel = 100;
  run.options.sgd.momentum = 0.5f;
  run.gradient = [](int, std::uint64_t, std::size_t element) { return element == 7 ? 1.0f : 0.0f; };
  for (const std::string exchange : {"topk", "gtopk", "ps"}) {
    run.spec = exchange + ":density=0.01";
    EXPECT_EQ(test::run_strategy(run)[0].grads[2][7], 1) << run.spec;
    run.spec += ",momentum=unmasked";
    EXPECT_EQ(test::run_strategy(run)[0].grads[2][7], 1.75f) << run.spec;
  }
}

// With an automatic density, coordinates lose their momentum in the first 5 % of the run only.
TEST(SparseStrategies, KeepMomentumAfterTheBeginningOfARun) {
  test::StrategyRun run;
  run.workers = 2;
  run.numel = 100;
  run.steps = 104;
  run.options.steps = 2000;
  run.options.sgd.momentum = 0.5f;
  run.gradient = [](int, std::uint64_t, std::size_t element) { return element == 7 ? 1.0f : 0.0f; };
  for (const std::string exchange : {"topk", "gtopk", "ps"}) {
    run.spec = exchange;
    const auto grads = test::run_strategy(run)[0].grads;
    EXPECT_EQ(grads[99][7], 1) << run.spec;
    EXPECT_EQ(grads[103][7], 1.875f) << run.spec;
  }
}

TEST(SparseStrategies, SmallTensorsAreDenseIfAsked) {
  test::StrategyRun run = run_of("gtopk:density=0.001,small=dense", 4);
  run.options.sgd = {0.5f, 0.125f, false};
  const auto records = test::run_strategy(run);  // its only tensor has one dimension
  expect_agreement(records);
  expect_momentum_sgd(run, records);
  run.shape = {run.numel / 10, 10};
  const auto matrix = test::run_strategy(run)[0].grads[0];
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
  run.options.steps = steps;
  return test::warnings_of(run);
}

TEST(SparseStrategies, WarnIfARunIsTooShortForItsDensity) {
  const auto few = warnings("gtopk:density=0.001", 2346);
  ASSERT_EQ(few.size(), 1u);
  EXPECT_NE(few[0].find("about 1.2 times"), std::string::npos) << few[0];
  EXPECT_NE(few[0].find("density=0.026"), std::string::npos) << few[0];
  EXPECT_TRUE(warnings("gtopk:density=0.01", 2346).empty());
  EXPECT_EQ(warnings("topk:density=0.001", 6000).size(), 1u);
  EXPECT_TRUE(warnings("topk:density=0.001", 12'000).empty());  // all picks are applied
  EXPECT_TRUE(warnings("gtopk:density=0.001", 0).empty());      // a length that is not known
  EXPECT_TRUE(warnings("gtopk", 100).empty());
}

// Also after a resume.
TEST(SparseStrategies, WarnOnceInARun) {
  test::StrategyRun run;
  run.workers = 4;
  run.options.steps = 100;
  run.steps = 2;
  for (const char* spec : {"gtopk:density=0.01", "ps:density=0.001", "gtopk"}) {
    run.spec = spec;
    run.workers = run.spec == "gtopk" ? 32 : 4;
    EXPECT_FALSE(test::warnings_of(run).empty()) << spec;
    std::vector<Payload> states;
    for (const test::RankRecord& record : test::run_strategy(run)) states.push_back(record.state);
    EXPECT_EQ(test::warnings_of(run, states.data()), std::vector<std::string>()) << spec;
  }
}

TEST(SparseStrategies, SayThatAnAutomaticDensityMakesStepsDense) {
  test::StrategyRun run;
  run.spec = "gtopk";
  run.workers = 32;
  run.options.steps =
      100;  // each worker should deliver 0.05 of its elements: more than all are sent
  const auto said = test::warnings_of(run);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(test::has(said[0], "steps are dense"));
}

// Workers pick the same coordinates, or never pick the same.
float same_picks(int, std::uint64_t step, std::size_t element) {
  return test::grid_gradient(0, step, element);
}
float other_picks(int rank, std::uint64_t step, std::size_t element) {
  const bool own = element % 4 == static_cast<std::size_t>(rank);
  return own ? test::grid_gradient(rank, step, element) : 0;
}

TEST(SparseStrategies, CountHowOftenEachCoordinateWasDelivered) {
  for (const std::string strategy : {"topk", "gtopk", "ps"}) {
    test::StrategyRun run;
    run.spec = strategy + ":density=0.1,warmup=none";
    if (strategy == "ps") run.spec += ",select=magnitude";
    run.workers = 4;
    run.steps = 5;
    run.options.steps = 10;
    run.gradient = same_picks;
    const auto same = test::run_strategy(run);
    EXPECT_NEAR(metric(same, "workers_per_change"), 4, 0.01) << strategy;
    EXPECT_NEAR(metric(same, "coverage"), 0.5, 0.01) << strategy;
    EXPECT_NEAR(metric(same, "coverage_predicted"), 1, 0.02) << strategy;
    EXPECT_DOUBLE_EQ(metric(same, "density"), 0.1);
    EXPECT_DOUBLE_EQ(metric(same, "density_mean"), 0.1);
    run.gradient = other_picks;
    const auto others = test::run_strategy(run);
    EXPECT_NEAR(metric(others, "workers_per_change"), 1, 0.01) << strategy;
    const double delivered = strategy == "gtopk" ? 0.5 / 4 : 0.5;
    EXPECT_NEAR(metric(others, "coverage"), delivered, 0.01) << strategy;
    EXPECT_NEAR(metric(others, "coverage_predicted"), 2 * delivered, 0.02) << strategy;
  }
}

TEST(SparseStrategies, SendLessOnceWorkersAreSeenToPickTheSame) {
  test::StrategyRun run;
  run.spec = "gtopk:warmup=none";
  run.workers = 4;
  run.steps = 25;
  run.options.steps = 900;
  for (const bool same : {true, false}) {
    run.gradient = same ? same_picks : other_picks;
    const auto records = test::run_strategy(run);
    expect_agreement(records);
    EXPECT_NEAR(metric(records, "density"), (same ? 1 : 4) * 30.0 / 900, 1e-9);
  }
}

// Law 4: times decide nothing, so that a slow and a fast network give the same run.
TEST(SparseStrategies, DoTheSameOnEveryNetwork) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "this build has no simulated transport";
  const auto simulate = [](const std::string& spec, const Network& network) {
    std::vector<Payload> states(4);
    JoinOptions options;
    options.size = 4;
    options.network = network;
    run_workers("sim", options, [&](Transport& wire) {
      const Layout layout{{{"all", 0, {2000}}}, 2000};
      std::vector<float> grads(layout.numel);
      test::StrategyDriver driver(wire, spec, layout, {.steps = 1000});
      driver.begin();
      while (driver.step() < 120) {
        wire.sleep(Seconds(0.01));
        for (std::size_t i = 0; i < grads.size(); ++i) {
          grads[i] = test::grid_gradient(wire.rank(), driver.step(), i);
        }
        driver.exchange(grads);
      }
      states[static_cast<std::size_t>(wire.rank())] = driver.save();
    });
    return states;
  };
  for (const char* spec : {"topk", "gtopk", "ps"}) {
    const Network slow{1e6, Seconds(1e-2)}, fast{1e9, Seconds(1e-4)};  // bit/s
    EXPECT_TRUE(simulate(spec, slow) == simulate(spec, fast)) << spec;
  }
}

TEST(SparseStrategies, SayOnceIfTheOtherExchangeSendsLess) {
  const auto remarks = [](const std::string& spec, auto gradient) {
    std::vector<std::string> out;
    const LogSink log = [&](LogLevel level, std::string_view text) {
      if (level == LogLevel::info) out.emplace_back(text);
    };
    test::on_ranks(4, [&](Transport& wire) {
      const Layout layout{{{"all", 0, {1000}}}, 1000};
      std::vector<float> grads(layout.numel);
      test::StrategyDriver driver(wire, spec, layout, {.steps = 600},
                                  wire.rank() == 0 ? log : LogSink());
      driver.begin();
      while (driver.step() < 60) {
        for (std::size_t i = 0; i < grads.size(); ++i) {
          grads[i] = gradient(wire.rank(), driver.step(), i);
        }
        driver.exchange(grads);
      }
    });
    return out;
  };
  const auto merged = remarks("gtopk:density=0.1", other_picks);
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_TRUE(test::has(merged[0], "topk delivers as much with fewer bytes"));
  const auto gathered = remarks("topk:density=0.1", same_picks);
  ASSERT_EQ(gathered.size(), 1u);
  EXPECT_TRUE(test::has(gathered[0], "gtopk delivers as much with fewer bytes"));
  EXPECT_TRUE(remarks("gtopk:density=0.1", same_picks).empty());
  EXPECT_TRUE(remarks("topk:density=0.1", other_picks).empty());
}

TEST(SparseStrategies, SelectsTheShareOfTheWarmUp) {
  test::StrategyRun run = run_of("gtopk:density=0.01,warmup=0.1+0.05", 4);
  run.options.steps = 3;
  run.options.steps_per_epoch = 1;
  const auto records = test::run_strategy(run);
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
