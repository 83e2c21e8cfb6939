// A rank whose forked child outlives it: the other ranks notice at once that the rank is dead.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "c_api/fork.h"
#include "c_api/test_ranks.h"
#include "rendezvous/socket.h"

namespace thinwire::c_api::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kListener = 100;  // its descriptor in the process below

// Joins, and begins a session.
tw_session begin(const Rank& self, Model& model) {
  tw_session session = 0;
  EXPECT_EQ(tw_session_open(self.group, session_options("dense").c_str(), &session), TW_OK);
  EXPECT_EQ(tw_session_begin(session, model.params.data(), kNumel, 0), TW_OK);
  EXPECT_EQ(wait_for(session), TW_OK) << tw_error_text();
  return session;
}

// The process that the test below starts: one rank, which forks a child and is killed when it has
// read a byte. The child lives until its standard input is closed. It is disabled as a test.
TEST(CApiForkedRank, DISABLED_IsKilled) {
  const int rank = std::stoi(getenv("TW_TEST_RANK"));
  const Rank self(rank, 2, static_cast<std::uint16_t>(std::stoi(getenv("TW_TEST_PORT"))),
                  kListener);
  Model model;
  begin(self, model);
  char byte = 0;
  ASSERT_EQ(read(STDIN_FILENO, &byte, 1), 1) << "the other rank has begun";
  if (fork() == 0) {
    const bool closed = tw_after_fork_in_child() == TW_OK;
    _exit(closed && read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1);
  }
  raise(SIGKILL);
}

class CApiFork : public testing::TestWithParam<int> {};

TEST_P(CApiFork, ADeadRankIsNoticedAtOnceThoughItsChildLives) {
  const int killed = GetParam();
  std::uint16_t port = 0;
  int descriptor = -1, input[2];
  ASSERT_EQ(tw_listen("127.0.0.1", &port, &descriptor), TW_OK);
  ASSERT_EQ(pipe2(input, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  if (killed == 0) posix_spawn_file_actions_adddup2(&actions, descriptor, kListener);
  setenv("TW_TEST_PORT", std::to_string(port).c_str(), 1);
  setenv("TW_TEST_RANK", std::to_string(killed).c_str(), 1);
  std::string program = "/proc/self/exe", disabled = "--gtest_also_run_disabled_tests",
              filter = "--gtest_filter=CApiForkedRank.*";
  std::vector<char*> arguments = {program.data(), disabled.data(), filter.data(), nullptr};
  pid_t process = -1;
  ASSERT_EQ(posix_spawn(&process, program.c_str(), &actions, nullptr, arguments.data(), environ),
            0);
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  if (killed == 0) close(descriptor);

  const Rank self(1 - killed, 2, port, descriptor, 20);
  Model model;
  const tw_session session = begin(self, model);
  ASSERT_EQ(tw_session_submit(session, 0, nullptr, model.grads.data(), kNumel), TW_OK);
  ASSERT_EQ(write(input[1], "!", 1), 1);
  EXPECT_EQ(wait_for(session), TW_LOST) << "not TW_DEADLINE: " << tw_error_text();
  EXPECT_THAT(tw_error_text(), AllOf(HasSubstr("lost rank " + std::to_string(killed)),
                                     HasSubstr("its process ended")));
  EXPECT_EQ(tw_group_close(self.group), TW_OK);
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  close(input[1]);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CApiFork, testing::Values(0, 1));

// Opens a listener at `host` and a connection to it.
struct Connection {
  Connection(const std::string& host, std::uint16_t port)
      : listener(rendezvous::listen_at(host, port)),
        client(rendezvous::connect_to(host, rendezvous::port_of(listener),
                                      rendezvous::deadline_in(Seconds(5)))) {}
  // Returns whether both are still open. What was closed is no longer owned.
  std::pair<bool, bool> open() {
    const auto is_open = [](rendezvous::Socket& socket) {
      if (fcntl(socket.fd(), F_GETFD) >= 0) return true;
      [[maybe_unused]] const int closed = socket.release();
      return false;
    };
    return {is_open(listener), is_open(client)};
  }
  rendezvous::Socket listener, client;
};

// The program may have connections of its own to the same port of another machine, or listen there
// at another address.
TEST(CApiForkedProcess, ClosesConnectionsToTheAddressOfRank0Only) {
  Connection group("127.0.0.1", 0);
  JoinOptions options;
  options.size = 2;
  options.master_port = rendezvous::port_of(group.listener);
  Connection program("127.0.0.2", options.master_port);
  {
    options.rank = 1;
    const MasterAddress address(options);
    close_group_connections();
    EXPECT_EQ(group.open(), std::pair(true, false));
    EXPECT_EQ(program.open(), std::pair(true, true));
  }
  {
    options.rank = 0;
    const MasterAddress address(options);
    close_group_connections();
    EXPECT_EQ(group.open().first, false);
    EXPECT_EQ(program.open(), std::pair(true, true));
  }
}

// An inherited socket says where rank 0 listens; all of its addresses are those of the group.
TEST(CApiForkedProcess, ClosesASocketThatListensAtAllAddresses) {
  Connection group("0.0.0.0", 0);
  JoinOptions options;
  options.size = 2;
  options.master_port = rendezvous::port_of(group.listener);
  options.master_socket = group.listener.fd();
  rendezvous::Socket rank =
      rendezvous::connect_to("127.0.0.3", options.master_port, rendezvous::deadline_in(Seconds(5)));
  rendezvous::Socket accepted = rendezvous::accept_from(group.listener);
  while (rendezvous::Socket next = rendezvous::accept_from(group.listener)) {
    accepted = std::move(next);
  }
  const MasterAddress address(options);
  close_group_connections();
  EXPECT_EQ(group.open().first, false);
  EXPECT_LT(fcntl(accepted.fd(), F_GETFD), 0);
  [[maybe_unused]] const int closed = accepted.release();
  EXPECT_GE(fcntl(rank.fd(), F_GETFD), 0) << "a connection of the program to 127.0.0.3";
}

// A group of one rank has no connections, so its port, which it does not use, is not registered.
TEST(CApiForkedProcess, KeepsConnectionsIfAGroupHasOneRank) {
  Connection program("127.0.0.1", 0);
  JoinOptions options;
  options.master_port = rendezvous::port_of(program.listener);
  const MasterAddress address(options);
  close_group_connections();
  EXPECT_EQ(program.open(), std::pair(true, true));
}

TEST_F(CApiMistakes, TheParentKeepsItsConnections) {
  EXPECT_EQ(tw_after_fork_in_child(), TW_USAGE);
  EXPECT_THAT(tw_error_text(), HasSubstr("not in a forked child"));
}

}  // namespace
}  // namespace thinwire::c_api::test
