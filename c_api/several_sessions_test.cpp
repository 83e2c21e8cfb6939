// Several sessions of one group, whose operations are going on at the same time.
#include <gmock/gmock.h>

#include <algorithm>

#include "c_api/test_ranks.h"

namespace thinwire::c_api::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t kLarge = 40'000;  // messages that take a while

std::string large_options(const std::string& strategy, int buckets) {
  return json{{"strategy", strategy},
              {"steps", 10},
              {"buckets", buckets},
              {"tensors", {{{"name", "a"}, {"shape", {kLarge}}}, {{"name", "b"}, {"shape", {3}}}}}}
      .dump();
}

// One of several models of a rank.
struct Trained {
  tw_session session = 0;
  std::size_t buckets = 1;
  std::vector<float> params = std::vector<float>(kLarge + 3, 0);
  std::vector<float> grads = std::vector<float>(kLarge + 3, 0);

  void open(tw_group group, const std::string& strategy, std::size_t count) {
    buckets = count;
    const std::string options = large_options(strategy, static_cast<int>(count));
    ASSERT_EQ(tw_session_open(group, options.c_str(), &session), TW_OK) << tw_error_text();
    ASSERT_EQ(tw_session_begin(session, params.data(), params.size(), 0), TW_OK);
    ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
  }
  void submit(float gradient) {
    std::fill(grads.begin(), grads.end(), gradient);
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      ASSERT_EQ(tw_session_submit(session, bucket, params.data(), grads.data(), grads.size()),
                TW_OK)
          << tw_error_text();
    }
  }
  void expect_mean(float gradient) {
    ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
    ASSERT_TRUE(std::ranges::all_of(grads, [=](float value) { return value == gradient; }));
    finish_step();
  }
  void finish_step() {
    ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
    ASSERT_EQ(tw_session_finish_step(session, params.data(), params.size(), 1, 0.1), TW_OK);
  }
};

// The ranks even start the exchanges of a step in different orders.
TEST(CApiSessions, ExchangeAtTheSameTime) {
  on_ranks(2, [](const Rank& self, int rank) {
    Trained first, second;
    first.open(self.group, "dense", 1);
    second.open(self.group, "dense", 1);
    for (int step = 0; step < 50; ++step) {
      const auto gradient = static_cast<float>(step + rank);
      if (step > 0) {
        ASSERT_EQ(wait_for(first.session), TW_OK) << tw_error_text();
        ASSERT_EQ(wait_for(second.session), TW_OK) << tw_error_text();
      }
      Trained& early = rank == 0 ? first : second;
      Trained& late = rank == 0 ? second : first;
      early.submit(&early == &first ? gradient : 100 * gradient);
      late.submit(&late == &first ? gradient : 100 * gradient);
      first.expect_mean(static_cast<float>(step) + 0.5f);
      second.expect_mean(100 * static_cast<float>(step) + 50);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(tw_session_close(first.session), TW_OK);
    EXPECT_EQ(tw_session_close(second.session), TW_OK);
    self.leave();
  });
}

// An asynchronous strategy exchanges in the background all the time.
TEST(CApiSessions, OfDifferentStrategiesDoNotDisturbEachOther) {
  on_ranks(2, [](const Rank& self, int rank) {
    Trained averaged, exchanged;
    averaged.open(self.group, "lasgd", 1);
    exchanged.open(self.group, "dense", 1);
    for (int step = 0; step < 20; ++step) {
      averaged.submit(1);
      exchanged.submit(static_cast<float>(rank));
      averaged.finish_step();
      exchanged.expect_mean(0.5f);
      ASSERT_EQ(wait_for(averaged.session), TW_OK) << tw_error_text();
      ASSERT_EQ(wait_for(exchanged.session), TW_OK) << tw_error_text();
    }
    for (Trained* trained : {&averaged, &exchanged}) {
      ASSERT_EQ(tw_session_end(trained->session, trained->params.data(), trained->params.size()),
                TW_OK);
      ASSERT_EQ(wait_for(trained->session), TW_OK) << tw_error_text();
      ASSERT_EQ(tw_session_close(trained->session), TW_OK);
    }
    self.leave();
  });
}

// Lanes are numbered in the order in which they are made, so this order must not depend on time.
TEST(CApiSessions, BeginOneAfterTheOther) {
  on_ranks(2, [](const Rank& self, int) {
    tw_session first = 0, second = 0, third = 0;
    Model model, other;
    const std::string options = session_options("dense");
    ASSERT_EQ(tw_session_open(self.group, options.c_str(), &first), TW_OK);
    ASSERT_EQ(tw_session_open(self.group, options.c_str(), &second), TW_OK);
    ASSERT_EQ(tw_session_begin(first, model.params.data(), kNumel, 0), TW_OK);
    EXPECT_EQ(tw_session_begin(second, other.params.data(), kNumel, 0), TW_USAGE);
    EXPECT_THAT(tw_error_text(), HasSubstr("another session of the group begins"));
    EXPECT_EQ(tw_session_open(self.group, options.c_str(), &third), TW_USAGE);
    ASSERT_EQ(wait_for(first), TW_OK) << tw_error_text();
    EXPECT_EQ(tw_session_begin(second, other.params.data(), kNumel, 0), TW_OK);
    ASSERT_EQ(wait_for(second), TW_OK) << tw_error_text();
    EXPECT_EQ(tw_session_open(self.group, options.c_str(), &third), TW_OK) << tw_error_text();
    for (const tw_session session : {first, second, third}) {
      EXPECT_EQ(tw_session_close(session), TW_OK);
    }
    self.leave();
  });
}

// A session that is closed while it begins lets the next one begin.
TEST_F(CApiMistakes, AClosedSessionDoesNotBlockTheOthers) {
  tw_session other = 0;
  ASSERT_EQ(tw_session_open(group_, session_options("dense").c_str(), &other), TW_OK);
  ASSERT_EQ(tw_session_begin(session_, model_.params.data(), kNumel, 0), TW_OK);
  ASSERT_EQ(tw_session_close(session_), TW_OK);
  EXPECT_EQ(tw_session_begin(other, model_.params.data(), kNumel, 0), TW_OK) << tw_error_text();
}

}  // namespace
}  // namespace thinwire::c_api::test
