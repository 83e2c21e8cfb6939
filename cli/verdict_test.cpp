#include "cli/verdict.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cli/readable.h"
#include "tests/expect.h"

namespace thinwire::cli {
namespace {

// Learns in `steps` tests of equal length up to its accuracy, a straight line.
ComparedRun run_of(const std::string& strategy, double accuracy, double seconds,
                   double bytes = 1e6) {
  ComparedRun run;
  run.strategy = strategy;
  run.summary = "{}";
  run.accuracy = accuracy;
  run.seconds = seconds;
  run.bytes_sent = bytes;
  constexpr int kTests = 10;
  for (int i = 1; i <= kTests; ++i) {
    const double share = static_cast<double>(i) / kTests;
    run.tests.push_back(
        {static_cast<std::uint64_t>(i), share * seconds, share * bytes, share * accuracy});
  }
  return run;
}

Comparison comparison_of(std::vector<ComparedRun> runs) {
  Comparison comparison;
  comparison.runs = std::move(runs);
  return comparison;
}

TEST(Verdict, NamesTheOneThatIsSooner) {
  const Verdict verdict = judge(comparison_of(
      {run_of("dense", 0.978, 61), run_of("topk", 0.979, 20), run_of("gtopk", 0.976, 10, 2e4)}));
  EXPECT_EQ(verdict.target, 0.97);
  ASSERT_EQ(verdict.winner, 2u);
  EXPECT_EQ(verdict.headline,
            "gtopk reaches 97 % accuracy 6.0x sooner than dense, with 50x fewer bytes.");
}

TEST(Verdict, SaysSoIfDenseIsFine) {
  ComparedRun dense = run_of("dense", 0.978, 100);
  dense.wire = 4;
  const Verdict verdict = judge(comparison_of({dense, run_of("gtopk", 0.978, 98)}));
  EXPECT_FALSE(verdict.winner);
  EXPECT_EQ(verdict.headline, "dense is fine here: the network takes 4 % of the step.");
  EXPECT_TRUE(has(verdict.sentences[1], "reaches 97 % at the same time"));
}

TEST(Verdict, ABusyNetworkAloneIsNoReasonToChange) {
  ComparedRun dense = run_of("dense", 0.978, 100);
  dense.wire = 60;
  const Verdict verdict = judge(comparison_of({dense, run_of("powersgd", 0.978, 150)}));
  EXPECT_TRUE(has(verdict.headline, "dense is the best choice here"));
  EXPECT_TRUE(has(verdict.headline, "60 %"));
  EXPECT_TRUE(has(verdict.sentences[1], "later"));
}

TEST(Verdict, SpeedDoesNotExcuseLostAccuracy) {
  const Verdict verdict =
      judge(comparison_of({run_of("dense", 0.97, 100), run_of("topk", 0.947, 5)}));
  EXPECT_FALSE(verdict.winner);
  EXPECT_TRUE(has(verdict.sentences[1], "loses 2.3 points of accuracy (94.7 % against 97.0 %)"));
  EXPECT_TRUE(has(verdict.sentences[1], "does not reach 96 %"));
}

TEST(Verdict, WithoutABaselineThereIsNone) {
  ComparedRun dense;
  dense.strategy = "dense";
  dense.problem = "rank 1 was killed";
  const Verdict verdict = judge(comparison_of({dense, run_of("gtopk", 0.9, 1)}));
  EXPECT_TRUE(has(verdict.headline, "nothing to compare with"));
  EXPECT_FALSE(verdict.winner);
  EXPECT_EQ(verdict.standings.size(), 2u);
}

TEST(Verdict, FailedRunsAreNamedWithTheirReason) {
  ComparedRun failed;
  failed.strategy = "lasgd";
  failed.problem = "a model is not finite";
  const Verdict verdict = judge(comparison_of({run_of("dense", 0.9, 1), failed}));
  EXPECT_EQ(verdict.sentences[1], "lasgd has no result: a model is not finite");
}

TEST(Verdict, DoubtsTimesOfABusyMachine) {
  ComparedRun calm = run_of("dense", 0.9, 10), busy = run_of("qsgd", 0.9, 40);
  calm.steps = busy.steps = 100;
  calm.compute = 5;
  busy.compute = 14;
  EXPECT_FALSE(has(judge(comparison_of({calm, busy})).headline, "doubtful"));
  busy.compute = 16;
  const Verdict verdict = judge(comparison_of({calm, busy}));
  EXPECT_TRUE(has(verdict.headline, "The times are doubtful."));
  EXPECT_TRUE(has(verdict.caveats.front(), "50 ms with dense and 160 ms with qsgd"));
}

TEST(Verdict, WhoDivergesDoesNotWin) {
  ComparedRun diverged = run_of("powersgd", 0.9, 1);
  diverged.diverged = true;
  diverged.warnings = {"a gradient is not finite"};
  const Verdict verdict = judge(comparison_of({run_of("dense", 0.9, 10), diverged}));
  EXPECT_FALSE(verdict.winner);
  EXPECT_TRUE(has(verdict.sentences[1], "powersgd: diverged"));
  EXPECT_TRUE(has(verdict.sentences[1], "warned: a gradient is not finite"));
}

TEST(Verdict, TimeToTheTargetLiesBetweenTests) {
  ComparedRun dense = run_of("dense", 0.905, 10);
  dense.tests = {{1, 2, 200, 0.5}, {2, 4, 400, 0.95}, {3, 10, 1000, 0.905}};
  const Verdict verdict = judge(comparison_of({dense}));
  ASSERT_EQ(verdict.target, 0.9);
  EXPECT_NEAR(*verdict.standings[0].seconds_to_target, 2 + 2 * 0.4 / 0.45, 1e-9);
  EXPECT_NEAR(*verdict.standings[0].bytes_to_target, 200 + 200 * 0.4 / 0.45, 1e-9);
}

// Whatever was measured: no praise that the figures do not carry.
RC_GTEST_PROP(Verdict, NeverSaysSoonerIfItIsNot, ()) {
  std::vector<ComparedRun> runs = {
      run_of("dense", *rc::gen::inRange(0, 1000) / 1000.0, 1 + *rc::gen::inRange(0, 1000))};
  for (const char* name : {"topk", "gtopk", "qsgd"}) {
    runs.push_back(run_of(name, *rc::gen::inRange(0, 1000) / 1000.0, 1 + *rc::gen::inRange(0, 1000),
                          1 + *rc::gen::inRange(0, 1000000)));
  }
  const Comparison comparison = comparison_of(runs);
  const Verdict verdict = judge(comparison);
  RC_ASSERT(verdict.winner.has_value() ==
            (verdict.headline.find("sooner than") != std::string::npos));
  const auto reach = [&](const ComparedRun& run) {
    for (const TestPoint& test : run.tests) {
      if (test.accuracy >= *verdict.target) return test.seconds;
    }
    return 1e300;
  };
  if (verdict.winner) {
    const ComparedRun& winner = comparison.runs[*verdict.winner];
    RC_ASSERT(winner.accuracy >= runs[0].accuracy - kSameAccuracy - 1e-9);
    RC_ASSERT(*verdict.standings[*verdict.winner].sooner > 1 + kSameTime);
    // Both clocks run in tenths of the run, which is all that interpolation may add.
    RC_ASSERT(reach(winner) - winner.seconds / 10 < reach(runs[0]));
  }
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const bool praised = verdict.sentences[i].find(" sooner") != std::string::npos;
    RC_ASSERT(!praised || *verdict.standings[i].sooner > 1 + kSameTime);
  }
}

RC_GTEST_PROP(Readable, FactorsAreNeverRoundedUp, ()) {
  const double factor = *rc::gen::inRange(1, 1000000) / 1000.0;
  RC_ASSERT(std::stod(readable_factor(factor)) <= factor * (1 + 1e-9));
}

TEST(Readable, Quantities) {
  EXPECT_EQ(readable_bytes(999), "999 B");
  EXPECT_EQ(readable_bytes(57.6e6), "57.6 MB");
  EXPECT_EQ(readable_time(Seconds(0.0042)), "4.2 ms");
  EXPECT_EQ(readable_time(Seconds(185)), "3 min 05 s");
  EXPECT_EQ(readable_factor(6.19), "6.1x");
  EXPECT_EQ(readable_factor(1.1), "1.10x");
}

}  // namespace
}  // namespace thinwire::cli
