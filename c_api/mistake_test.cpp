// Mistakes of the caller: each is refused with a message that names it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "c_api/test_ranks.h"

namespace thinwire::c_api::test {
namespace {

using testing::HasSubstr;

TEST(CApi, WrongOptionsAreNamed) {
  const auto refused = [](const char* options) {
    tw_group group = 0;
    EXPECT_EQ(tw_group_join(options, &group), TW_CONFIG) << options;
    return std::string(tw_error_text());
  };
  EXPECT_THAT(refused("{"), HasSubstr("not JSON"));
  EXPECT_THAT(refused("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refused("{}"), HasSubstr("rank is missing"));
  EXPECT_THAT(refused(std::string(100'000, '[').c_str()), HasSubstr("nested too deeply"));
  EXPECT_THAT(refused(R"({"rank": 2, "size": 2})"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refused(R"({"rank": 0, "size": 1e300})"), HasSubstr("size"));
  EXPECT_THAT(refused(R"({"rank": 0, "size": 1, "tokne": ""})"), HasSubstr("did you mean token?"));
  EXPECT_THAT(refused(R"({"rank": 0, "size": 1, "timeout": -1})"), HasSubstr("timeout"));
  EXPECT_THAT(refused(R"({"rank": 0, "size": 1, "network": "fast"})"), HasSubstr("fast"));
}

TEST_F(CApiMistakes, CallsOutOfOrderAreRefused) {
  float* const params = model_.params.data();
  float* const grads = model_.grads.data();
  EXPECT_EQ(tw_session_submit(session_, 0, params, grads, kNumel), TW_USAGE);
  EXPECT_EQ(tw_session_finish_step(session_, params, kNumel, 1, 0), TW_USAGE);
  EXPECT_EQ(tw_session_end(session_, params, kNumel), TW_USAGE);
  EXPECT_EQ(tw_session_begin(session_, params, kNumel - 1, 0), TW_USAGE);
  EXPECT_EQ(tw_session_begin(session_, nullptr, kNumel, 0), TW_USAGE);
  EXPECT_EQ(tw_session_begin(session_, params, kNumel, 0), TW_OK);
  EXPECT_EQ(wait_for(session_), TW_OK);
  EXPECT_EQ(tw_session_begin(session_, params, kNumel, 0), TW_USAGE);
  EXPECT_EQ(tw_session_load(session_, params, 4), TW_USAGE);
  EXPECT_EQ(tw_session_submit(session_, 1, params, grads, kNumel), TW_USAGE);
  EXPECT_EQ(tw_session_submit(session_, 0, params, nullptr, kNumel), TW_USAGE);
  EXPECT_EQ(tw_session_submit(session_, 0, params, grads, kNumel + 1), TW_USAGE);
  EXPECT_EQ(wait_for(session_), TW_OK) << "a refused submit begins no step: " << tw_error_text();
  EXPECT_EQ(tw_session_sum_metrics(session_), TW_OK) << tw_error_text();
  EXPECT_EQ(wait_for(session_), TW_OK) << tw_error_text();
  EXPECT_EQ(tw_session_submit(session_, 0, params, grads, kNumel), TW_OK);
  EXPECT_EQ(tw_session_submit(session_, 0, params, grads, kNumel), TW_USAGE);
  EXPECT_EQ(wait_for(session_), TW_OK);
  EXPECT_EQ(tw_group_leave(group_), TW_USAGE) << "a session is open";
  EXPECT_EQ(tw_session_close(session_), TW_OK);
  EXPECT_EQ(tw_session_close(session_), TW_USAGE);
  EXPECT_THAT(tw_error_text(), HasSubstr("closed"));
  EXPECT_EQ(tw_group_leave(group_), TW_OK);
  EXPECT_EQ(tw_group_wait(group_, kForever), TW_OK);
  EXPECT_EQ(tw_session_open(group_, session_options("dense").c_str(), &session_), TW_USAGE);
}

TEST_F(CApiMistakes, AWaitWithinTheSubmitsOfAStepIsRefused) {
  tw_session session = 0;
  ASSERT_EQ(tw_session_open(group_, session_options("dense", 2).c_str(), &session), TW_OK);
  ASSERT_EQ(tw_session_begin(session, model_.params.data(), kNumel, 0), TW_OK);
  ASSERT_EQ(wait_for(session), TW_OK);
  float* const grads = model_.grads.data();
  ASSERT_EQ(tw_session_submit(session, 1, nullptr, grads, kNumel), TW_OK);
  EXPECT_EQ(tw_session_submit(session, 1, nullptr, grads, kNumel), TW_USAGE);
  EXPECT_THAT(tw_error_text(), HasSubstr("twice"));
  EXPECT_EQ(wait_for(session), TW_USAGE);
  EXPECT_THAT(tw_error_text(), HasSubstr("1 missing"));
  ASSERT_EQ(tw_session_submit(session, 0, nullptr, grads, kNumel), TW_OK);
  EXPECT_EQ(wait_for(session), TW_OK) << tw_error_text();
}

TEST_F(CApiMistakes, TensorsAreChecked) {
  const auto refused = [&](const std::string& tensor) {
    tw_session session = 0;
    const std::string options = R"({"strategy": "dense", "tensors": [)" + tensor + "]}";
    EXPECT_EQ(tw_session_open(group_, options.c_str(), &session), TW_CONFIG) << tensor;
    return std::string(tw_error_text());
  };
  EXPECT_THAT(refused(R"({"name": "a", "shape": [2], "dtype": "bf16"})"), HasSubstr("unknown key"));
  EXPECT_THAT(refused(R"({"name": "a", "shape": [-1]})"), HasSubstr("not a number"));
  EXPECT_THAT(refused(R"({"name": "a", "shape": [4294967296, 4294967296]})"),
              HasSubstr("too many elements"));
  EXPECT_THAT(refused(R"({"name": "a", "shape": [0]})"), HasSubstr("no parameters"));
  EXPECT_THAT(refused("3"), HasSubstr("not an object"));
}

TEST_F(CApiMistakes, ReplicasCannotBeCheckedWithoutParameters) {
  tw_session session = 0;
  json options = json::parse(session_options("dense"));
  options["check_every"] = 1;
  ASSERT_EQ(tw_session_open(group_, options.dump().c_str(), &session), TW_OK);
  ASSERT_EQ(tw_session_begin(session, model_.params.data(), kNumel, 0), TW_OK);
  ASSERT_EQ(wait_for(session), TW_OK);
  ASSERT_EQ(tw_session_submit(session, 0, nullptr, model_.grads.data(), kNumel), TW_OK);
  ASSERT_EQ(wait_for(session), TW_OK);
  EXPECT_EQ(tw_session_finish_step(session, nullptr, 0, 1, 0), TW_USAGE);
  EXPECT_EQ(tw_session_finish_step(session, model_.params.data(), kNumel, 1, 0), TW_OK);
  EXPECT_EQ(wait_for(session), TW_OK);
}

TEST_F(CApiMistakes, AForkedProcessIsRefused) {
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = tw_session_stats(session_, nullptr, 0, nullptr) == TW_USAGE &&
                         std::string(tw_error_text()).find("forked") != std::string::npos;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A join would start threads in the child, which the handles of the parent's groups forbid.
TEST_F(CApiMistakes, AForkedProcessCannotJoin) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const pid_t child = fork();
  if (child == 0) {
    tw_group group = 0;
    const bool refused =
        tw_group_join(R"({"rank": 0, "size": 1})", &group) == TW_USAGE &&
        std::string(tw_error_text()).find("forked while its parent had an open group") !=
            std::string::npos;
    _exit(refused && threads() == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Takes a step in a group of one rank. Returns whether all calls succeeded.
bool trains_alone() {
  tw_group group = 0;
  tw_session session = 0;
  Model model;
  const auto waits = [&] { return wait_for(session) == TW_OK; };
  return tw_group_join(R"({"rank": 0, "size": 1})", &group) == TW_OK &&
         tw_group_wait(group, kForever) == TW_OK &&
         tw_session_open(group, session_options("dense").c_str(), &session) == TW_OK &&
         tw_session_begin(session, model.params.data(), kNumel, 0) == TW_OK && waits() &&
         tw_session_submit(session, 0, nullptr, model.grads.data(), kNumel) == TW_OK && waits() &&
         tw_group_close(group) == TW_OK;
}

// The owner of the handles is forgotten when the last one is closed.
TEST(CApiForkedProcess, CanJoinAfterAllGroupsWereClosed) {
  EXPECT_TRUE(trains_alone()) << tw_error_text();
  const pid_t child = fork();
  if (child == 0) {
    const bool trained = trains_alone();
    if (!trained) std::fprintf(stderr, "%s\n", tw_error_text());
    _exit(trained ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(trains_alone()) << tw_error_text();
}

TEST_F(CApiMistakes, FieldsAreAnObjectForEveryKindOfError) {
  EXPECT_EQ(tw_group_leave(0), TW_USAGE);
  const json fields = json::parse(tw_error_fields());
  ASSERT_TRUE(fields.is_object()) << fields;
  EXPECT_EQ(fields["kind"], "usage");
  EXPECT_TRUE(fields.at("rank").is_null());
  std::thread([] { EXPECT_EQ(json::parse(tw_error_fields()), json::object()); }).join();
}

// Returns whether the descriptor is open.
bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

// After a successful tw_group_join() the socket belongs to the group, whatever happens later.
TEST(CApiListen, TheSocketIsClosedWithTheGroup) {
  const json cases[] = {
      {{"size", 1}},
      {{"size", 2}, {"master_host", "192.0.2.1"}},  // needs a token
      {{"size", 2}, {"interface", "no-such-interface"}},
      {{"size", 2}, {"join_timeout", 0.05}},
  };
  for (json options : cases) {
    std::uint16_t port = 0;
    int descriptor = -1;
    ASSERT_EQ(tw_listen("127.0.0.1", &port, &descriptor), TW_OK);
    options.update({{"rank", 0}, {"master_port", port}, {"master_socket", descriptor}});
    tw_group group = 0;
    ASSERT_EQ(tw_group_join(options.dump().c_str(), &group), TW_OK) << options;
    tw_group_wait(group, kForever);
    EXPECT_EQ(tw_group_close(group), TW_OK);
    EXPECT_FALSE(is_open(descriptor)) << options;
  }
}

TEST(CApiListen, AnErrorOfTheJoinLeavesTheSocketToTheCaller) {
  std::uint16_t port = 0;
  int descriptor = -1;
  ASSERT_EQ(tw_listen("127.0.0.1", &port, &descriptor), TW_OK);
  const json options = {{"rank", 0}, {"size", 1}, {"master_socket", descriptor}, {"tokne", ""}};
  tw_group group = 0;
  EXPECT_EQ(tw_group_join(options.dump().c_str(), &group), TW_CONFIG);
  EXPECT_TRUE(is_open(descriptor));
  close(descriptor);
}

TEST(CApiListen, OnlyRank0MayPassASocketAndOnlyOneThatListens) {
  const auto refused = [](int rank, int descriptor) {
    const json options = {{"rank", rank}, {"size", 2}, {"master_socket", descriptor}};
    tw_group group = 0;
    EXPECT_EQ(tw_group_join(options.dump().c_str(), &group), TW_CONFIG);
    return std::string(tw_error_text());
  };
  EXPECT_THAT(refused(0, STDIN_FILENO), HasSubstr("a socket that listens"));
  EXPECT_TRUE(is_open(STDIN_FILENO));
  EXPECT_THAT(refused(0, 1'000'000), HasSubstr("a socket that listens"));
  std::uint16_t port = 0;
  int descriptor = -1;
  ASSERT_EQ(tw_listen("127.0.0.1", &port, &descriptor), TW_OK);
  EXPECT_THAT(refused(1, descriptor), HasSubstr("except on rank 0"));
  close(descriptor);
}

TEST_F(CApiMistakes, MessagesOfTheLibraryCanBeTaken) {
  int level = 0;
  char out[1000];
  std::size_t needed = 0;
  ASSERT_EQ(tw_group_log(group_, &level, out, sizeof out, &needed), TW_OK);
  EXPECT_EQ(level, -1);
  EXPECT_EQ(needed, 1u);
}

}  // namespace
}  // namespace thinwire::c_api::test
