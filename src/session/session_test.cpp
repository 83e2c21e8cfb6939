#include "thinwire/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "testing/expect.h"
#include "testing/ranks.h"
#include "thinwire/error.h"
#include "thinwire/launch.h"

namespace thinwire {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Lets three ranks begin and returns how many refused to, with a text that matches.
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

// Messages of dense have no header that would show the difference.
TEST(Session, RanksThatBeginAtDifferentStepsAreNamed) {
  const auto begin = [](Session& session, int rank, ModelView model) {
    session.begin(model, rank == 2 ? 20 : 10);
  };
  for (const char* strategy : {"dense", "qsgd", "localsgd"}) {
    EXPECT_EQ(refusals(
                  begin, [&](int) { return options_for(strategy); },
                  HasSubstr("(first step: '10' on ranks 0, 1 and '20' on rank 2);")),
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

void begin_at_0(Session& session, int, ModelView model) { session.begin(model, 0); }

TEST(Session, RanksWithOtherOptionsAreNamed) {
  const auto strategies = [](int rank) { return options_for(rank == 1 ? "qsgd" : "dense"); };
  EXPECT_EQ(refusals(begin_at_0, strategies,
                     HasSubstr("(strategy: 'dense' on ranks 0, 2 and 'qsgd' on rank 1);")),
            3);
}

// Only what differs is in the text.
TEST(Session, EveryOptionThatDiffersIsNamed) {
  const auto options = [](int rank) {
    SessionOptions out = options_for("dense");
    out.run.seed = static_cast<std::uint64_t>(rank) + 1;
    out.run.sgd.momentum = rank == 2 ? 0.9f : 0.5f;
    return out;
  };
  EXPECT_EQ(refusals(begin_at_0, options,
                     HasSubstr("(seed: '1' on rank 0 and '2' on rank 1 and '3' on rank 2; "
                               "momentum: '0.5' on ranks 0, 1 and '0.9' on rank 2);")),
            3);
}

TEST(Session, EachOptionIsCompared) {
  const std::pair<const char*, std::function<void(SessionOptions&)>> kChanges[] = {
      {"strategy", [](SessionOptions& o) { o.strategy = "dense:dtype=bf16"; }},
      {"seed", [](SessionOptions& o) { o.run.seed = 7; }},
      {"steps", [](SessionOptions& o) { o.run.steps = 7; }},
      {"samples", [](SessionOptions& o) { o.run.samples = 7; }},
      {"steps per epoch", [](SessionOptions& o) { o.run.steps_per_epoch = 0.5; }},
      {"warm-up steps", [](SessionOptions& o) { o.run.warmup_steps = 7; }},
      {"momentum", [](SessionOptions& o) { o.run.sgd.momentum = 0.9f; }},
      {"weight decay", [](SessionOptions& o) { o.run.sgd.weight_decay = 1e-4f; }},
      {"nesterov", [](SessionOptions& o) { o.run.sgd.nesterov = true; }},
      {"steps between checks", [](SessionOptions& o) { o.check_every = 7; }},
      {"gradients that are not finite", [](SessionOptions& o) { o.nonfinite = NonFinite::stop; }},
  };
  for (const auto& [name, change] : kChanges) {
    const auto options = [&change](int rank) {
      SessionOptions out = options_for("dense");
      if (rank == 2) change(out);
      return out;
    };
    const std::string begin = std::string("session: ranks differ (") + name + ": '";
    EXPECT_EQ(refusals(begin_at_0, options, StartsWith(begin)), 3) << name;
  }
}

TEST(Session, LayoutsAreCompared) {
  std::atomic<int> refused{0};
  test::on_ranks(3, [&](Transport& wire) {
    const std::size_t rows = wire.rank() == 1 ? 2 : 3;
    const Layout layout{{{"matrix", 0, {rows, 6 / rows}}}, 6};
    std::vector<float> params(6), grads(6);
    Session session(wire, {});
    const auto error = test::must_throw<ConfigError>([&] {
      session.begin({params, grads, layout}, 0);
    });
    EXPECT_THAT(error.what(), HasSubstr("(layout: '1 tensors (hash "));
    EXPECT_EQ(error.fields().peer, 1);
    EXPECT_EQ(error.fields().operation, "begin");
    EXPECT_EQ(error.fields().remedy, Remedy::match_options);
    ++refused;
  });
  EXPECT_EQ(refused, 3);
}

// Strategies from outside of the library, which have no spec.
class KeepsGradients : public GradientStrategy {
 public:
  void begin(const StrategyContext&) override {}
  Update exchange(const GradientStep&) override { return Update::dense(); }
};
class Halves final : public KeepsGradients {};
class Scales final : public KeepsGradients {
 public:
  explicit Scales(int factor) : factor_(factor) {}
  std::string describe() const override { return "scales by " + std::to_string(factor_); }

 private:
  int factor_;
};

int refusals_of(const std::function<std::unique_ptr<Strategy>(int rank)>& make,
                const std::string& text) {
  const auto from_factory = [&make](int rank) {
    SessionOptions options;
    options.make_strategy = [&make, rank] { return make(rank); };
    return options;
  };
  const int refused = refusals(begin_at_0, from_factory, HasSubstr(text));
  // The same with objects that are built before the session.
  test::on_ranks(3, [&](Transport& wire) {
    const Layout layout{{{"all", 0, {4}}}, 4};
    std::vector<float> params(layout.numel), grads(layout.numel);
    Session session(wire, {}, make(wire.rank()));
    const auto begin = [&] { session.begin({params, grads, layout}, 0); };
    if (refused == 0) return begin();
    EXPECT_THAT(test::must_throw<ConfigError>(begin).what(), HasSubstr(text));
  });
  return refused;
}

TEST(Session, RanksWithOtherStrategyClassesAreNamed) {
  const auto make = [](int rank) -> std::unique_ptr<Strategy> {
    if (rank == 2) return std::make_unique<Halves>();
    return std::make_unique<KeepsGradients>();
  };
  EXPECT_EQ(refusals_of(make,
                        "(strategy: 'thinwire::(anonymous namespace)::KeepsGradients' on ranks 0, "
                        "1 and 'thinwire::(anonymous namespace)::Halves' on rank 2);"),
            3);
}

TEST(Session, RanksWithOtherOptionsOfTheirStrategyClassAreNamed) {
  const auto make = [](int rank) { return std::make_unique<Scales>(rank == 1 ? 3 : 2); };
  EXPECT_EQ(
      refusals_of(make, "(strategy: 'scales by 2' on ranks 0, 2 and 'scales by 3' on rank 1);"), 3);
}

TEST(Session, RanksWithEqualStrategyObjectsTrain) {
  EXPECT_EQ(refusals_of([](int) { return std::make_unique<Scales>(2); }, ""), 0);
  EXPECT_EQ(refusals_of([](int) { return make_strategy("qsgd:bits=8"); }, ""), 0);
}

// A built-in strategy is compared with its keys, also if the session did not make it.
TEST(Session, RanksWithOtherKeysOfAStrategyObjectAreNamed) {
  const auto make = [](int rank) { return make_strategy(rank == 2 ? "qsgd:bits=8" : "qsgd"); };
  EXPECT_EQ(refusals_of(make, "(strategy: 'qsgd' on ranks 0, 1 and 'qsgd:bits=8' on rank 2);"), 3);
}

}  // namespace
}  // namespace thinwire
