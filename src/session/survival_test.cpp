// A step that fails half-way loses nothing: wherever the wire breaks, what a worker held back and
// its gradient are still there, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/survivor.h"
#include "transport/backends.h"

namespace thinwire {
namespace {

struct Outcome {
  bool threw = false;
  std::string lost;
  Payload state;
  std::uint64_t first = 0, end = 0;  // its operations in the last step
};

struct SurvivalRun {
  std::string spec;
  int workers = 2;
  int steps_before = 2;  // the fault: residual and velocity are not 0 then
  std::uint64_t steps = 0;
};

// All ranks play some steps, and one more, in which the fault is due.
std::vector<Outcome> play(const SurvivalRun& run, const std::string& fault, Seconds timeout) {
  const int workers = run.workers;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(workers));
  transport::BackendOptions options;
  options.size = workers;
  options.fault = fault;
  const auto worker = [&](Transport& wire) {
    Outcome& outcome = outcomes[static_cast<std::size_t>(wire.rank())];
    SurvivorRank rank(wire, run.spec, run.steps);
    try {  // a rank that is late may see the fault in an earlier step
      for (int step = 0; step < run.steps_before; ++step) rank.step();
      outcome.first = rank.operations();
      wire.set_timeout(timeout);
      rank.step();
    } catch (const std::exception&) {
      outcome.threw = true;
      outcome.lost = rank.lost();
      throw;
    }
    outcome.end = rank.operations();
    outcome.state = rank.state();
  };
  try {
    run_workers("threads", options, worker);
  } catch (const std::exception&) {
    EXPECT_NE(fault, "");
  }
  return outcomes;
}

// Checks that ranks that saw the fault lost nothing, and that the others made the step. Returns how
// many saw it.
int expect_nothing_lost(const SurvivalRun& run, const std::string& fault,
                        const std::vector<Outcome>* undisturbed, Seconds timeout = Seconds(60)) {
  const auto outcomes = play(run, fault, timeout);
  int threw = 0;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const Outcome& outcome = outcomes[rank];
    threw += outcome.threw;
    EXPECT_EQ(outcome.lost, "") << "rank " << rank << " of " << run.workers << ", " << fault;
    if (!outcome.threw && undisturbed != nullptr) {
      EXPECT_TRUE(outcome.state == (*undisturbed)[rank].state) << "rank " << rank << ", " << fault;
    }
  }
  return threw;
}

class Survival : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Sparse, Survival,
                         testing::Combine(testing::Values("topk:density=0.05", "gtopk:density=0.05",
                                                          "gtopk:density=0.05,residual=paper",
                                                          "ps:density=0.05",
                                                          "ps:density=0.05,keep=1,servers=2"),
                                          testing::Values(2, 3, 4, 5, 8)));
INSTANTIATE_TEST_SUITE_P(  // all that may be exchanged in addition to picks or instead of them
    Keys, Survival,
    testing::Combine(testing::Values("topk:density=1", "topk:density=1,small=dense",
                                     "topk:density=0.05,small=dense",
                                     "gtopk:density=0.05,small=dense,residual=paper",
                                     "gtopk:density=0.05,values=fp32,momentum=plain"),
                     testing::Values(3, 4)));

void expect_survival_of_every_failure(const SurvivalRun& run) {
  const auto undisturbed = play(run, "", Seconds(60));
  for (int victim = 0; victim < run.workers; ++victim) {
    const Outcome& usual = undisturbed[static_cast<std::size_t>(victim)];
    ASSERT_LT(usual.first, usual.end);
    for (std::uint64_t at = usual.first; at < usual.end; ++at) {
      const std::string fault = fmt::format("fail:rank={},at={}", victim, at);
      EXPECT_GT(expect_nothing_lost(run, fault, &undisturbed), 0) << fault;
    }
  }
}

TEST_P(Survival, OfAFailureAtEveryOperation) {
  const auto& [spec, workers] = GetParam();
  expect_survival_of_every_failure({.spec = spec, .workers = workers});
}

// In step 20 the ranks decide about the density.
TEST(SurvivalOf, AFailureAfterADecision) {
  expect_survival_of_every_failure(
      {.spec = "gtopk:warmup=none", .workers = 4, .steps_before = 20, .steps = 1000});
}

// A deadline that passes, and bytes that are not what was sent: these may go unnoticed by some.
TEST(SurvivalOf, ALostOrDamagedMessage) {
  for (const char* spec :
       {"topk:density=0.05", "gtopk:density=0.05", "ps:density=0.05,keep=1,servers=2"}) {
    const SurvivalRun run{.spec = spec, .workers = 3};
    const auto undisturbed = play(run, "", Seconds(60));
    for (const char* action : {"drop", "corrupt"}) {
      int threw = 0;
      for (std::uint64_t at = undisturbed[1].first; at < undisturbed[1].end; ++at) {
        const std::string fault = fmt::format("{}:rank=1,at={}", action, at);
        threw += expect_nothing_lost(run, fault, nullptr, Seconds(0.05));
      }
      EXPECT_GT(threw, 0) << spec << ", " << action;
    }
  }
}

}  // namespace
}  // namespace thinwire
