#include "report/recommendation.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/readable.h"
#include "testing/expect.h"

namespace thinwire::report {
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

TEST(Recommendation, NamesTheOneThatIsSooner) {
  const Recommendation recommendation = recommend(comparison_of(
      {run_of("dense", 0.978, 61), run_of("topk", 0.979, 20), run_of("gtopk", 0.976, 10, 2e4)}));
  EXPECT_EQ(recommendation.target, 0.97);
  ASSERT_EQ(recommendation.winner, 2u);
  EXPECT_EQ(recommendation.headline,
            "gtopk reaches 97 % accuracy 6.0x sooner than dense, with 49x fewer bytes.");
}

// A run that is ten times sooner has sent a tenth until then, whatever the whole run sends.
TEST(Recommendation, BytesCountUntilTheTarget) {
  ComparedRun dense = run_of("dense", 0.97, 100, 1e6), quick = run_of("topk", 0.97, 100, 1e5);
  dense.tests = {{1, 10, 1e5, 0.5}, {2, 90, 9e5, 0.96}, {3, 100, 1e6, 0.97}};
  quick.tests = {{1, 10, 1e4, 0.5}, {2, 30, 3e4, 0.96}, {3, 100, 1e5, 0.97}};
  const Recommendation recommendation = recommend(comparison_of({dense, quick}));
  EXPECT_NEAR(*recommendation.comparisons[1].fewer_bytes_to_target, 30, 1e-6);
  EXPECT_NEAR(*recommendation.comparisons[1].fewer_bytes, 10, 1e-6);
  EXPECT_EQ(recommendation.headline,
            "topk reaches 96 % accuracy 3.0x sooner than dense, with 30x fewer bytes.");
  EXPECT_TRUE(
      test::has(recommendation.sentences[1], "reaches 96 % 3.0x sooner, with 30x fewer bytes"));
}

TEST(Recommendation, ThereIsNoneIfDenseDidNotLearn) {
  Comparison comparison = comparison_of({run_of("dense", 0.12, 80), run_of("gtopk", 0.13, 10)});
  comparison.chance = 0.11;
  const Recommendation guessing = recommend(comparison);
  EXPECT_FALSE(guessing.winner);
  EXPECT_FALSE(guessing.target);
  EXPECT_EQ(guessing.headline,
            "dense did not learn here: 12.0 % accuracy, where always giving the commonest answer "
            "gets 11.0 %. There is no recommendation; try a smaller --lr, or more epochs.");
  EXPECT_EQ(guessing.sentences[1], "gtopk: 13.0 % after 10.0 s");
  comparison.runs[0] = run_of("dense", 0.9, 80);
  comparison.runs[0].diverged = true;
  comparison.runs[1] = run_of("gtopk", 0.9, 10);
  const Recommendation diverged = recommend(comparison);
  EXPECT_FALSE(diverged.winner);
  EXPECT_TRUE(test::has(diverged.headline, "dense diverged here"));
  EXPECT_TRUE(test::has(diverged.headline, "try a smaller --lr"));
  comparison.runs[0].diverged = false;
  EXPECT_TRUE(recommend(comparison).winner);
}

TEST(Recommendation, SaysSoIfDenseIsFine) {
  ComparedRun dense = run_of("dense", 0.978, 100);
  dense.wire = 4;
  const Recommendation recommendation =
      recommend(comparison_of({dense, run_of("gtopk", 0.978, 98)}));
  EXPECT_FALSE(recommendation.winner);
  EXPECT_EQ(recommendation.headline, "dense is fine here: the network takes 4 % of the step.");
  EXPECT_TRUE(test::has(recommendation.sentences[1], "reaches 97 % at the same time"));
}

TEST(Recommendation, ABusyNetworkAloneIsNoReasonToChange) {
  ComparedRun dense = run_of("dense", 0.978, 100);
  dense.wire = 60;
  const Recommendation recommendation =
      recommend(comparison_of({dense, run_of("powersgd", 0.978, 150)}));
  EXPECT_TRUE(test::has(recommendation.headline, "dense is the best choice here"));
  EXPECT_TRUE(test::has(recommendation.headline, "60 %"));
  EXPECT_TRUE(test::has(recommendation.sentences[1], "later"));
}

TEST(Recommendation, WhatIsBestIsBestOfThoseThatFinished) {
  ComparedRun dense = run_of("dense", 0.978, 100), waiting, failed;
  dense.wire = 60;
  waiting.strategy = "lasgd";
  failed.strategy = "ps";
  failed.problem = "rank 1 was killed";
  const Recommendation recommendation =
      recommend(comparison_of({dense, run_of("powersgd", 0.978, 150), waiting, failed}));
  EXPECT_EQ(recommendation.headline,
            "dense is the best choice of the 2 that finished: the network takes 60 % of the step, "
            "but nothing else reaches its accuracy clearly sooner. Without a result: lasgd, ps.");
}

TEST(Recommendation, NamesWhatOthersOfferIfNoneIsSooner) {
  ComparedRun dense = run_of("dense", 0.978, 100);
  dense.wire = 60;
  const Recommendation recommendation = recommend(comparison_of(
      {dense, run_of("topk", 0.99, 140), run_of("qsgd", 0.978, 100, 1e5), run_of("ps", 0.9, 1)}));
  EXPECT_FALSE(recommendation.winner);
  EXPECT_EQ(recommendation.headline,
            "Nothing reaches the accuracy of dense clearly sooner, though the network takes 60 % "
            "of the step; but topk gains 1.2 points of accuracy, and qsgd takes the same time with "
            "10x fewer bytes.");
  dense.wire = 4;
  EXPECT_EQ(recommend(comparison_of({dense, run_of("qsgd", 0.978, 100, 1e5)})).headline,
            "dense is fine here: the network takes 4 % of the step. But qsgd takes the same time "
            "with 10x fewer bytes.");
}

TEST(Recommendation, SaysSoIfNoNetworkWasImitated) {
  Comparison comparison = comparison_of({run_of("dense", 0.97, 100), run_of("topk", 0.97, 50)});
  EXPECT_FALSE(test::has(recommend(comparison).headline, "imitated"));
  comparison.network_imitated = false;
  const Recommendation recommendation = recommend(comparison);
  EXPECT_TRUE(
      test::has(recommendation.headline, "No network was imitated: add --network 1gbit,0.2ms."));
  EXPECT_TRUE(test::has(recommendation.caveats.front(), "No network was imitated"));
}

// The first test shows only that the target was reached before it.
TEST(Recommendation, TheFirstTestIsABound) {
  ComparedRun dense = run_of("dense", 0.97, 100), early = run_of("topk", 0.97, 50);
  dense.wire = 60;
  early.tests = {{1, 20, 1e4, 0.965}, {2, 50, 1e5, 0.97}};
  const Recommendation recommendation = recommend(comparison_of({dense, early}));
  ASSERT_EQ(recommendation.winner, 1u);
  EXPECT_TRUE(test::has(recommendation.headline,
                        "96 % accuracy at least 4.9x sooner than dense, with at least"));
  EXPECT_TRUE(test::has(recommendation.sentences[1], "by its first test, at least 4.9x sooner"));
  // It is unknown how long before its first test the baseline reached the target.
  dense.tests = {{1, 90, 9e5, 0.965}, {2, 100, 1e6, 0.97}};
  const Recommendation coarse = recommend(comparison_of({dense, early, run_of("qsgd", 0.97, 50)}));
  EXPECT_FALSE(coarse.winner);
  EXPECT_FALSE(coarse.comparisons[1].sooner);
  EXPECT_TRUE(test::has(coarse.headline, "dense reaches 96 % by its first test"));
  EXPECT_TRUE(test::has(coarse.headline, "--eval-every"));
  EXPECT_TRUE(test::has(coarse.sentences[1], "reaches 96 % by its first test, after 20.0 s"));
  EXPECT_TRUE(test::has(coarse.sentences[2], "reaches 96 % after 49.")) << coarse.sentences[2];
}

TEST(Recommendation, MeansOfDifferentModelsAreMarked) {
  ComparedRun gossip = run_of("gossip", 0.97, 50);
  EXPECT_EQ(recommend(comparison_of({run_of("dense", 0.97, 100), gossip})).caveats.size(), 3u);
  gossip.consensus_distance = 0.1;
  EXPECT_EQ(recommend(comparison_of({run_of("dense", 0.97, 100), gossip})).caveats.size(), 4u);
}

TEST(Recommendation, SpeedDoesNotExcuseLostAccuracy) {
  const Recommendation recommendation =
      recommend(comparison_of({run_of("dense", 0.97, 100), run_of("topk", 0.947, 5)}));
  EXPECT_FALSE(recommendation.winner);
  EXPECT_TRUE(test::has(recommendation.sentences[1],
                        "loses 2.3 points of accuracy (94.7 % against 97.0 %)"));
  EXPECT_TRUE(test::has(recommendation.sentences[1], "does not reach 96 %"));
}

TEST(Recommendation, WithoutABaselineThereIsNone) {
  ComparedRun dense;
  dense.strategy = "dense";
  dense.problem = "rank 1 was killed";
  const Recommendation recommendation = recommend(comparison_of({dense, run_of("gtopk", 0.9, 1)}));
  EXPECT_TRUE(test::has(recommendation.headline, "nothing to compare with"));
  EXPECT_FALSE(recommendation.winner);
  ASSERT_EQ(recommendation.comparisons.size(), 2u);
  EXPECT_FALSE(recommendation.comparisons[1].fewer_bytes) << "fewer than what?";
  EXPECT_EQ(recommendation.sentences[1], "gtopk: 90.0 % after 1.0 s");
}

TEST(Recommendation, FailedRunsAreNamedWithTheirReason) {
  ComparedRun failed;
  failed.strategy = "lasgd";
  failed.problem = "a model is not finite";
  const Recommendation recommendation = recommend(comparison_of({run_of("dense", 0.9, 1), failed}));
  EXPECT_EQ(recommendation.sentences[1], "lasgd has no result: a model is not finite");
}

TEST(Recommendation, DoubtsTimesOfABusyMachine) {
  ComparedRun calm = run_of("dense", 0.9, 10), busy = run_of("qsgd", 0.9, 40);
  calm.steps = busy.steps = 100;
  calm.compute = 5;
  busy.compute = 14;
  EXPECT_FALSE(test::has(recommend(comparison_of({calm, busy})).headline, "doubtful"));
  busy.compute = 16;
  const Recommendation recommendation = recommend(comparison_of({calm, busy}));
  EXPECT_TRUE(test::has(recommendation.headline, "The times are doubtful."));
  EXPECT_TRUE(test::has(recommendation.caveats.front(), "50 ms with dense and 160 ms with qsgd"));
  Comparison slowed = comparison_of({calm, busy});
  slowed.same_computing = false;  // --slow
  EXPECT_FALSE(test::has(recommend(slowed).headline, "doubtful"));
}

TEST(Recommendation, WhoDivergesDoesNotWin) {
  ComparedRun diverged = run_of("powersgd", 0.9, 1);
  diverged.diverged = true;
  diverged.warnings = {"a gradient is not finite"};
  const Recommendation recommendation =
      recommend(comparison_of({run_of("dense", 0.9, 10), diverged}));
  EXPECT_FALSE(recommendation.winner);
  EXPECT_TRUE(test::has(recommendation.sentences[1], "powersgd: diverged"));
  EXPECT_EQ(recommendation.sentences[1].find("gains "), std::string::npos);
  EXPECT_TRUE(test::has(recommendation.sentences[1], "warned: a gradient is not finite"));
}

TEST(Recommendation, TimeToTheTargetLiesBetweenTests) {
  ComparedRun dense = run_of("dense", 0.905, 10);
  dense.tests = {{1, 2, 200, 0.5}, {2, 4, 400, 0.95}, {3, 10, 1000, 0.905}};
  const Recommendation recommendation = recommend(comparison_of({dense}));
  ASSERT_EQ(recommendation.target, 0.9);
  EXPECT_NEAR(*recommendation.comparisons[0].seconds_to_target, 2 + 2 * 0.4 / 0.45, 1e-9);
  EXPECT_NEAR(*recommendation.comparisons[0].bytes_to_target, 200 + 200 * 0.4 / 0.45, 1e-9);
}

// Whatever was measured: no winner_text that the metrics do not carry.
RC_GTEST_PROP(Recommendation, NeverSaysSoonerIfItIsNot, ()) {
  std::vector<ComparedRun> runs = {
      run_of("dense", *rc::gen::inRange(0, 1000) / 1000.0, 1 + *rc::gen::inRange(0, 1000))};
  for (const char* name : {"topk", "gtopk", "qsgd"}) {
    runs.push_back(run_of(name, *rc::gen::inRange(0, 1000) / 1000.0, 1 + *rc::gen::inRange(0, 1000),
                          1 + *rc::gen::inRange(0, 1000000)));
  }
  const Comparison comparison = comparison_of(runs);
  const Recommendation recommendation = recommend(comparison);
  RC_ASSERT(recommendation.winner.has_value() ==
            (recommendation.headline.find("sooner than") != std::string::npos));
  const auto reach = [&](const ComparedRun& run) {
    for (const TestPoint& test : run.tests) {
      if (test.accuracy >= *recommendation.target) return test.seconds;
    }
    return 1e300;
  };
  if (recommendation.winner) {
    const ComparedRun& winner = comparison.runs[*recommendation.winner];
    RC_ASSERT(winner.accuracy >= runs[0].accuracy - kSameAccuracy - 1e-9);
    RC_ASSERT(*recommendation.comparisons[*recommendation.winner].sooner > 1 + kSameTime);
    // Both clocks run in tenths of the run, which is all that interpolation may add.
    RC_ASSERT(reach(winner) - winner.seconds / 10 < reach(runs[0]));
  }
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const bool is_sooner = recommendation.sentences[i].find(" sooner") != std::string::npos;
    RC_ASSERT(!is_sooner || *recommendation.comparisons[i].sooner > 1 + kSameTime);
  }
}

RC_GTEST_PROP(Readable, FactorsAreNeverRoundedUp, ()) {
  const double factor = *rc::gen::inRange(1, 1000000) / 1000.0;
  RC_ASSERT(std::stod(base::readable_factor(factor)) <= factor * (1 + 1e-9));
}

TEST(Readable, Quantities) {
  EXPECT_EQ(base::readable_bytes(999), "999 B");
  EXPECT_EQ(base::readable_bytes(57.6e6), "57.6 MB");
  EXPECT_EQ(base::readable_time(Seconds(0.0042)), "4.2 ms");
  EXPECT_EQ(base::readable_time(Seconds(185)), "3 min 05 s");
  EXPECT_EQ(base::readable_factor(6.19), "6.1x");
  EXPECT_EQ(base::readable_factor(1.1), "1.10x");
}

}  // namespace
}  // namespace thinwire::report
