#include "thinwire/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "testing/expect.h"
#include "thinwire/error.h"
#include "thinwire/launch.h"

namespace thinwire {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Three ranks begin as told; returns how many refused to, with a text that matches.
int refusals(const std::function<void(Session&, int rank, ModelView)>& begin,
             const std::function<SessionOptions(int rank)>& options_of,
             const testing::Matcher<std::string>& text) {
  std::atomic<int> refused{0};
  JoinOptions join;
  join.size = 3;
  run_workers("threads", join, [&](Transport& wire) {
    const Layout layout{{{"all", 0, {4}}}, 4};
    std::vector<float> params(layout.numel), grads(layout.numel);
    Session session(wire, options_of(wire.rank()));
    try {
      begin(session, wire.rank(), {params, grads, layout});
      session.end({params, grads, layout});
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), text);
      ++refused;
    }
  });
  return refused;
}

SessionOptions options_for(const std::string& strategy) {
  SessionOptions options;
  options.strategy = strategy;
  return options;
}

// Messages of dense have no header that would tell.
TEST(Session, RanksThatBeginAtDifferentStepsAreNamed) {
  const auto begin = [](Session& session, int rank, ModelView model) {
    session.begin(model, rank == 2 ? 20 : 10);
  };
  for (const char* strategy : {"dense", "qsgd", "localsgd"}) {
    EXPECT_EQ(refusals(
                  begin, [&](int) { return options_for(strategy); },
                  AllOf(HasSubstr("rank 0 begins at step 10, but rank 2 at step 20;"),
                        Not(HasSubstr("rank 1 at step")))),
              3)
        << strategy;
  }
}

// There each worker counts its own steps, and has taken as many as it could.
TEST(Session, StepsOfAsynchronousWorkersMayDiffer) {
  const auto begin = [](Session& session, int rank, ModelView model) {
    session.begin(model, static_cast<std::uint64_t>(rank));
  };
  EXPECT_EQ(refusals(
                begin, [](int) { return options_for("gossip"); }, HasSubstr("")),
            0);
}

TEST(Session, RanksWithOtherOptionsAreNamed) {
  const auto begin = [](Session& session, int, ModelView model) { session.begin(model, 0); };
  const auto options = [](int rank) { return options_for(rank == 1 ? "qsgd" : "dense"); };
  EXPECT_EQ(refusals(begin, options, HasSubstr("ranks 1 have other options than rank 0")), 3);
}

}  // namespace
}  // namespace thinwire
