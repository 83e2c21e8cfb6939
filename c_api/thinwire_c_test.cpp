// Runs over the C API: they do what the C++ API does.
#include "thinwire/thinwire_c.h"

#include <gmock/gmock.h>

#include <numeric>

#include "c_api/test_ranks.h"
#include "thinwire/launch.h"
#include "thinwire/session.h"

namespace thinwire::c_api::test {
namespace {

using testing::HasSubstr;

TEST(CApi, ListsStrategiesWithTheirKeys) {
  EXPECT_EQ(tw_abi_version(), TW_ABI_VERSION);
  const json listed = json::parse(
      text_of([](char* out, size_t room, size_t* needed) { return tw_list(out, room, needed); }));
  EXPECT_EQ(listed["version"], tw_version());
  std::vector<std::string> names;
  for (const json& strategy : listed["strategies"]) names.push_back(strategy["name"]);
  for (const char* name : {"dense", "gtopk", "lasgd"}) EXPECT_THAT(names, testing::Contains(name));
}

TEST(CApi, ResultsThatDoNotFitSayHowLongTheyAre) {
  std::size_t needed = 0;
  char little = 'x';
  EXPECT_EQ(tw_list(&little, 1, &needed), TW_USAGE);
  EXPECT_EQ(little, 'x');
  std::vector<char> exact(needed);
  EXPECT_EQ(tw_list(exact.data(), exact.size(), &needed), TW_OK);
  EXPECT_EQ(exact.back(), '\0');
  EXPECT_EQ(tw_list(nullptr, 0, nullptr), TW_USAGE);
}

TEST(CApi, KnowsWhatAStrategyLeavesToTheOptimizer) {
  const auto info = [](const json& options) {
    return json::parse(text_of([&](char* out, size_t room, size_t* needed) {
      return tw_strategy_info(options.dump().c_str(), out, room, needed);
    }));
  };
  EXPECT_EQ(info({{"strategy", "topk"}, {"size", 4}, {"momentum", 0.5}})["momentum"], 0);
  EXPECT_EQ(info({{"strategy", "dense"}, {"size", 4}, {"momentum", 0.5}})["momentum"], 0.5);
  EXPECT_EQ(info({{"strategy", "lasgd"}, {"size", 4}})["exchanges"], "models");
  std::size_t needed = 0;
  EXPECT_EQ(tw_strategy_info(R"({"strategy": "gtopc"})", nullptr, 0, &needed), TW_CONFIG);
  EXPECT_THAT(tw_error_text(), HasSubstr("did you mean gtopk"));
  EXPECT_EQ(json::parse(tw_error_fields())["kind"], "config");
}

TEST(CApi, MeansTheGradientsOfAllRanks) {
  for (const int buckets : {1, 2}) {
    on_ranks(3, [&](const Rank& self, int rank) {
      tw_session session = 0;
      const std::string options = session_options("dense", buckets);
      ASSERT_EQ(tw_session_open(self.group, options.c_str(), &session), TW_OK) << tw_error_text();
      Model model;
      std::iota(model.params.begin(), model.params.end(), static_cast<float>(100 * rank));
      ASSERT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
      ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
      EXPECT_EQ(model.params[7], 7) << "the parameters of rank 0";
      for (int step = 0; step < 3; ++step) {
        std::fill(model.grads.begin(), model.grads.end(), static_cast<float>(rank + step));
        for (int bucket = buckets; bucket-- > 0;) {
          ASSERT_EQ(tw_session_submit(session, static_cast<size_t>(bucket), nullptr,
                                      model.grads.data(), kNumel),
                    TW_OK)
              << tw_error_text();
        }
        int skipped = -1;
        ASSERT_EQ(wait_for(session, &skipped), TW_OK) << tw_error_text();
        EXPECT_EQ(skipped, 0);
        EXPECT_EQ(model.grads, std::vector<float>(kNumel, static_cast<float>(1 + step)));
        ASSERT_EQ(tw_session_finish_step(session, nullptr, 0, 1, 0.1), TW_OK);
        ASSERT_EQ(wait_for(session), TW_OK);
      }
      ASSERT_EQ(tw_session_sum_metrics(session), TW_OK);
      ASSERT_EQ(wait_for(session), TW_OK);
      const json stats = json::parse(text_of([&](char* out, size_t room, size_t* needed) {
        return tw_session_stats(session, out, room, needed);
      }));
      EXPECT_EQ(stats["steps"], 3);
      EXPECT_GT(stats["bytes_sent"], 0);
      ASSERT_EQ(tw_session_end(session, nullptr, 0), TW_OK);
      ASSERT_EQ(wait_for(session), TW_OK);
      EXPECT_EQ(tw_session_close(session), TW_OK);
      self.leave();
    });
  }
}

// Writes gradients that differ between ranks and steps.
void write_gradients(Model& model, int rank, int step) {
  for (std::size_t i = 0; i < kNumel; ++i) {
    model.grads[i] = static_cast<float>((i * 7 + 13 * static_cast<std::size_t>(step + rank)) % 19);
  }
}

// Takes some steps.
void take_steps(tw_session session, Model& model, int rank, int first, int last) {
  for (int step = first; step < last; ++step) {
    write_gradients(model, rank, step);
    ASSERT_EQ(tw_session_submit(session, 0, model.params.data(), model.grads.data(), kNumel), TW_OK)
        << tw_error_text();
    ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
    for (std::size_t i = 0; i < kNumel; ++i) model.params[i] -= 0.1f * model.grads[i];
    ASSERT_EQ(tw_session_finish_step(session, model.params.data(), kNumel, 1, 0.1), TW_OK);
    ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
  }
}

TEST(CApi, ASavedStateContinuesTheRun) {
  on_ranks(2, [](const Rank& self, int rank) {
    const std::string options = session_options("topk:density=0.1", 1, 0.9);
    Model model, other;
    std::vector<std::byte> state;
    tw_session session = 0;
    ASSERT_EQ(tw_session_open(self.group, options.c_str(), &session), TW_OK);
    ASSERT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
    ASSERT_EQ(wait_for(session), TW_OK);
    take_steps(session, model, rank, 0, 4);
    std::size_t needed = 0;
    EXPECT_EQ(tw_session_save(session, nullptr, 0, &needed), TW_USAGE);
    state.resize(needed);
    ASSERT_EQ(tw_session_save(session, state.data(), state.size(), &needed), TW_OK);
    other.params = model.params;
    take_steps(session, model, rank, 4, 8);
    ASSERT_EQ(tw_session_close(session), TW_OK);

    ASSERT_EQ(tw_session_open(self.group, options.c_str(), &session), TW_OK);
    EXPECT_EQ(tw_session_load(session, state.data(), state.size() - 1), TW_WIRE);
    ASSERT_EQ(tw_session_load(session, state.data(), state.size()), TW_OK) << tw_error_text();
    ASSERT_EQ(tw_session_begin(session, other.params.data(), kNumel, 4), TW_OK);
    ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
    take_steps(session, other, rank, 4, 8);
    EXPECT_EQ(other.params, model.params);
    ASSERT_EQ(tw_session_close(session), TW_OK);
    self.leave();
  });
}

// The same gradients give the same parameters as in a C++ program.
TEST(CApi, GivesTheBitsOfTheSession) {
  for (const std::string spec : {"topk:density=0.1", "gtopk:density=0.1", "qsgd", "powersgd"}) {
    Model expected;
    thinwire::JoinOptions two;
    two.size = 2;
    thinwire::run_workers("threads", two, [&](thinwire::Transport& wire) {
      thinwire::SessionOptions options;
      options.strategy = spec;
      options.run.steps = 10;
      options.run.sgd.momentum = 0.5f;
      const thinwire::Layout layout{{{"a", 0, {5, 8}}, {"b", 40, {20}}}, kNumel};
      Model model;
      thinwire::Session session(wire, options);
      session.begin({model.params, model.grads, layout}, 0);
      for (int step = 0; step < 5; ++step) {
        write_gradients(model, wire.rank(), step);
        session.exchange({model.params, model.grads, layout});
        for (std::size_t i = 0; i < kNumel; ++i) model.params[i] -= 0.1f * model.grads[i];
        session.finish_step({model.params, model.grads, layout});
      }
      session.end({model.params, model.grads, layout});
      if (wire.rank() == 0) expected = model;
    });
    on_ranks(2, [&](const Rank& self, int rank) {
      tw_session session = 0;
      ASSERT_EQ(tw_session_open(self.group, session_options(spec, 1, 0.5).c_str(), &session),
                TW_OK);
      Model model;
      ASSERT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
      ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
      take_steps(session, model, rank, 0, 5);
      EXPECT_EQ(model.params, expected.params) << spec;
      ASSERT_EQ(tw_session_close(session), TW_OK);
      self.leave();
    });
  }
}

TEST(CApi, ModelStrategiesAverageModels) {
  on_ranks(2, [](const Rank& self, int rank) {
    tw_session session = 0;
    const std::string options = session_options("localsgd:period=2");
    ASSERT_EQ(tw_session_open(self.group, options.c_str(), &session), TW_OK) << tw_error_text();
    Model model;
    ASSERT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
    ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
    take_steps(session, model, rank, 0, 4);
    ASSERT_EQ(tw_session_quiesce(session, model.params.data(), kNumel), TW_OK);
    ASSERT_EQ(wait_for(session), TW_OK);
    ASSERT_EQ(tw_session_end(session, model.params.data(), kNumel), TW_OK);
    ASSERT_EQ(wait_for(session), TW_OK);
    ASSERT_EQ(tw_session_close(session), TW_OK);
    self.leave();
  });
}

}  // namespace
}  // namespace thinwire::c_api::test
