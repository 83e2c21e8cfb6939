// Ranks that fail, give up, differ or never join: every rank gets an error that names the cause.
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <latch>

#include "c_api/test_ranks.h"

namespace thinwire::c_api::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(CApi, RanksThatDifferAreRefusedWithBothValues) {
  on_ranks(2, [](const Rank& self, int rank) {
    tw_session session = 0;
    const std::string options = session_options(rank == 0 ? "dense" : "qsgd");
    ASSERT_EQ(tw_session_open(self.group, options.c_str(), &session), TW_OK);
    Model model;
    ASSERT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
    EXPECT_EQ(wait_for(session), TW_CONFIG);
    EXPECT_THAT(tw_error_text(), AllOf(HasSubstr("'dense' on rank 0"), HasSubstr("'qsgd'")));
    EXPECT_EQ(tw_session_submit(session, 0, nullptr, model.grads.data(), kNumel), TW_CONFIG)
        << "the same error again";
    EXPECT_EQ(tw_session_close(session), TW_OK);
    self.leave();
  });
}

TEST(CApi, ALaterMistakeDoesNotHideTheFirstFailure) {
  on_ranks(2, [](const Rank& self, int rank) {
    tw_session session = 0;
    const std::string options = session_options(rank == 0 ? "dense" : "qsgd");
    ASSERT_EQ(tw_session_open(self.group, options.c_str(), &session), TW_OK);
    Model model;
    ASSERT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
    tw_status status = TW_USAGE;  // an operation is going on
    while (status == TW_USAGE) {
      status = tw_session_submit(session, 0, nullptr, model.grads.data(), kNumel);
    }
    EXPECT_EQ(wait_for(session), TW_CONFIG);
    EXPECT_EQ(tw_session_close(session), TW_OK);
    self.leave();
  });
}

// The rest of a step with several buckets is missing, but the failure is more important.
TEST(CApi, MissingBucketsDoNotHideAFailure) {
  on_ranks(2, [](const Rank& self, int rank) {
    tw_session session = 0;
    const std::string options = session_options(rank == 0 ? "dense" : "qsgd", 2);
    ASSERT_EQ(tw_session_open(self.group, options.c_str(), &session), TW_OK);
    Model model;
    ASSERT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
    tw_status status = TW_USAGE;  // an operation is going on
    while (status == TW_USAGE) {
      status = tw_session_submit(session, 0, nullptr, model.grads.data(), kNumel);
    }
    EXPECT_EQ(status, TW_CONFIG);
    EXPECT_EQ(wait_for(session), TW_CONFIG);
    EXPECT_EQ(tw_session_close(session), TW_OK);
    self.leave();
  });
}

TEST(CApi, AGroupThatIsGivenUpWhileItJoinsFails) {
  std::uint16_t port = 0;
  int descriptor = -1;
  ASSERT_EQ(tw_listen("127.0.0.1", &port, &descriptor), TW_OK);
  tw_group first = 0, second = 0;
  json options = {{"rank", 0}, {"size", 2}, {"master_port", port}, {"master_socket", descriptor}};
  ASSERT_EQ(tw_group_join(options.dump().c_str(), &first), TW_OK);
  EXPECT_EQ(tw_group_abort(first, "changed its mind"), TW_OK);
  options["rank"] = 1;
  options["master_socket"] = -1;
  ASSERT_EQ(tw_group_join(options.dump().c_str(), &second), TW_OK);
  EXPECT_NE(tw_group_wait(first, kForever), TW_OK);
  EXPECT_THAT(tw_error_text(), HasSubstr("changed its mind"));
  EXPECT_EQ(tw_group_close(second), TW_OK);
  EXPECT_EQ(tw_group_close(first), TW_OK);
}

TEST(CApi, APeerThatGivesUpEndsTheOthers) {
  std::latch begun(3);
  on_ranks(3, [&](const Rank& self, int rank) {
    tw_session session = 0;
    const std::string options = session_options("dense");
    ASSERT_EQ(tw_session_open(self.group, options.c_str(), &session), TW_OK);
    Model model;
    ASSERT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
    ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
    begun.arrive_and_wait();
    if (rank == 1) {
      EXPECT_EQ(tw_group_abort(self.group, "its user was tired of it"), TW_OK);
    } else {
      ASSERT_EQ(tw_session_submit(session, 0, nullptr, model.grads.data(), kNumel), TW_OK);
      EXPECT_EQ(wait_for(session), TW_LOST);
      EXPECT_THAT(tw_error_text(), AllOf(HasSubstr("lost rank 1"), HasSubstr("tired of it")));
      EXPECT_EQ(json::parse(tw_error_fields())["peer"], 1);
    }
    EXPECT_EQ(tw_group_close(self.group), TW_OK);
    EXPECT_EQ(tw_session_stats(session, nullptr, 0, nullptr), TW_USAGE) << "closed with its group";
  });
}

// A rank that waits for another one can be ended by its own program at once.
TEST(CApi, AnAbortEndsTheOwnWait) {
  std::latch aborted(1);
  on_ranks(2, [&](const Rank& self, int rank) {
    tw_session session = 0;
    const std::string options = session_options("dense");
    ASSERT_EQ(tw_session_open(self.group, options.c_str(), &session), TW_OK);
    Model model;
    ASSERT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
    ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
    if (rank == 0) {
      ASSERT_EQ(tw_session_submit(session, 0, nullptr, model.grads.data(), kNumel), TW_OK);
      EXPECT_EQ(tw_session_wait(session, 0.05, nullptr), TW_PENDING);
      EXPECT_EQ(tw_session_stats(session, nullptr, 0, nullptr), TW_USAGE);
      EXPECT_THAT(tw_error_text(), HasSubstr("an operation is going on"));
      EXPECT_EQ(tw_group_abort(self.group, "stopped"), TW_OK);
      EXPECT_EQ(wait_for(session), TW_LOST);
      aborted.count_down();
    } else {
      aborted.wait();
    }
    EXPECT_EQ(tw_group_close(self.group), TW_OK);
  });
}

// Returns when the thread of this process sleeps in the kernel, as in a wait.
void wait_until_blocked(pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  char state = 'R';
  while (state != 'S') {
    std::string line;
    std::getline(std::ifstream(path), line);
    state = line.at(line.rfind(')') + 2);
  }
}

// A wait without a limit ends when another thread aborts or closes the group.
TEST(CApi, AnotherThreadEndsAWaitWithoutALimit) {
  for (const bool closes : {false, true}) {
    std::latch begun(2), ended(1);
    on_ranks(2, [&](const Rank& self, int rank) {
      tw_session session = 0;
      const std::string options = session_options("dense");
      ASSERT_EQ(tw_session_open(self.group, options.c_str(), &session), TW_OK);
      Model model;
      ASSERT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
      ASSERT_EQ(wait_for(session), TW_OK) << tw_error_text();
      begun.arrive_and_wait();
      if (rank == 0) {
        ASSERT_EQ(tw_session_submit(session, 0, nullptr, model.grads.data(), kNumel), TW_OK);
        std::thread other([&, waiting = gettid()] {
          wait_until_blocked(waiting);
          int level = 0;
          char text[1000];
          std::size_t needed = 0;
          EXPECT_EQ(tw_group_log(self.group, &level, text, sizeof text, &needed), TW_OK);
          EXPECT_EQ(closes ? tw_group_close(self.group) : tw_group_abort(self.group, "stopped"),
                    TW_OK);
        });
        EXPECT_EQ(wait_for(session), TW_LOST) << tw_error_text();
        other.join();
        ended.count_down();
      } else {
        ended.wait();
      }
      EXPECT_EQ(tw_group_close(self.group), rank == 0 && closes ? TW_USAGE : TW_OK);
    });
  }
}

// A close also ends the wait for ranks that do not leave.
TEST(CApi, ACloseEndsTheWaitForTheLeave) {
  std::latch joined(2), ended(1);
  on_ranks(2, [&](const Rank& self, int rank) {
    joined.arrive_and_wait();
    if (rank == 0) {
      ASSERT_EQ(tw_group_leave(self.group), TW_OK);
      std::thread other([&, waiting = gettid()] {
        wait_until_blocked(waiting);
        EXPECT_EQ(tw_group_close(self.group), TW_OK);
      });
      EXPECT_EQ(tw_group_wait(self.group, kForever), TW_FAILURE) << tw_error_text();
      EXPECT_THAT(tw_error_text(), HasSubstr("closed the group without leaving it"));
      other.join();
      ended.count_down();
    } else {
      ended.wait();
      EXPECT_EQ(tw_group_close(self.group), TW_OK);
    }
  });
}

// One rank works, for example evaluates its model, for longer than the timeout while the others
// leave. It is alive, so nobody gets an error, and the others wait for it.
TEST(CApi, ARankThatLeavesLateIsNotLost) {
  constexpr double kTimeout = 0.05;
  for (const int late : {0, 1}) {
    std::latch others_wait(2);
    on_ranks(
        3,
        [&](const Rank& self, int rank) {
          if (rank == late) {
            others_wait.wait();
          } else {
            ASSERT_EQ(tw_group_leave(self.group), TW_OK);
            EXPECT_EQ(tw_group_wait(self.group, 40 * kTimeout), TW_PENDING) << tw_error_text();
            others_wait.count_down();
          }
          // The group still works: no rank is reported as lost.
          if (rank == late) {
            tw_session session = 0;
            Model model;
            ASSERT_EQ(tw_session_open(self.group, session_options("dense").c_str(), &session),
                      TW_OK)
                << tw_error_text();
            ASSERT_EQ(tw_session_close(session), TW_OK);
            ASSERT_EQ(tw_group_leave(self.group), TW_OK) << tw_error_text();
          }
          EXPECT_EQ(tw_group_wait(self.group, kForever), TW_OK) << tw_error_text();
          EXPECT_EQ(tw_group_close(self.group), TW_OK);
        },
        kTimeout);
  }
}

TEST(CApi, AGroupThatNeverCompletesSaysWhoIsMissing) {
  std::uint16_t port = 0;
  int descriptor = -1;
  ASSERT_EQ(tw_listen("127.0.0.1", &port, &descriptor), TW_OK);
  tw_group group = 0;
  const json options = {{"rank", 0},
                        {"size", 2},
                        {"master_port", port},
                        {"join_timeout", 0.3},
                        {"master_socket", descriptor}};
  ASSERT_EQ(tw_group_join(options.dump().c_str(), &group), TW_OK);
  EXPECT_EQ(tw_group_wait(group, kForever), TW_JOIN);
  EXPECT_THAT(tw_error_text(), HasSubstr("missing: rank 1"));
  tw_session session = 0;
  EXPECT_EQ(tw_session_open(group, session_options("dense").c_str(), &session), TW_JOIN);
  EXPECT_EQ(tw_group_close(group), TW_OK);
  EXPECT_EQ(tw_listen("no such host", &port, &descriptor), TW_CONFIG);
}

}  // namespace
}  // namespace thinwire::c_api::test
