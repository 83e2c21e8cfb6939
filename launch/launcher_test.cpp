// The local launcher with real processes: shell scripts stand in for workers.
#include "launch/launcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/unique_fd.h"
#include "launch/worker_process.h"
#include "testing/scratch_directory.h"

namespace thinwire::launch {
namespace {

class Launch : public testing::Test {
 protected:
  int run(const std::string& script, int workers, Seconds grace = Seconds(2),
          Seconds timeout = Seconds(60)) {
    LaunchOptions options;
    options.command = {"/bin/sh", "-c", "cd " + left_behind_.str() + "\n" + script};
    options.workers = workers;
    options.grace = grace;
    options.timeout = timeout;
    options.kill_delay = Seconds(0.5);
    failure_.reset();
    options.on_failure = [&](const RunFailure& failure) { failure_ = failure; };
    std::ostringstream out, err;
    Io io{out, err, [](std::string_view) { return std::nullopt; }};
    const int code = launch_workers(options, io);
    err_ = err.str();
    return code;
  }

  std::string file(const std::string& name) const {
    std::ifstream stream(left_behind_.path() / name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  bool err_has(std::string_view text) const { return err_.find(text) != std::string::npos; }
  std::string last_line() const {
    const std::string text = err_.substr(0, err_.size() - 1);
    return text.substr(text.rfind('\n') + 1);
  }

  static std::string host() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return name;
  }

  test::ScratchDirectory left_behind_;  // by workers
  std::string err_;
  std::optional<RunFailure> failure_;
};

// Leaves this process a given number of free descriptors.
class FewDescriptors {
 public:
  explicit FewDescriptors(int left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = std::min<rlim_t>(few.rlim_cur, 256);
    setrlimit(RLIMIT_NOFILE, &few);
    for (int each; (each = open("/dev/null", O_RDONLY)) >= 0;) taken_.emplace_back(each);
    taken_.resize(taken_.size() - static_cast<std::size_t>(left));
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<base::UniqueFd> taken_;
};

// With any number of free descriptors, a worker either runs and is watched or does not exist.
TEST_F(Launch, LeavesNoWorkerBehindWithoutFreeDescriptors) {
  int failures = 0;
  for (int left = 0; left < 6; ++left) {
    const FewDescriptors few(left);
    try {
      const WorkerProcess worker(0, {"/bin/sleep", "60"}, {}, -1);
    } catch (const std::system_error&) {
      ++failures;
    }
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << left;
    EXPECT_EQ(errno, ECHILD);
  }
  EXPECT_EQ(failures, 4);  // two pipes: for its output, and for the result of exec
}

// On a terminal rank 0 rewrites its last line; what others say takes that line's place.
TEST_F(Launch, LinesOfOtherRanksTakeThePlaceOfALiveLine) {
  std::ostringstream err;
  Relay relay(err);
  relay.bytes(0, "\r\033[Kepoch 0.1");
  relay.bytes(0, "  step 2/9");
  relay.line(1, "a warning");
  relay.line(2, "another");
  relay.bytes(0, "half a line");
  relay.line(1, "a third");
  EXPECT_EQ(err.str(),
            "\r\033[Kepoch 0.1  step 2/9\r\033[K[rank 1] a warning\n[rank 2] another\n"
            "half a line[rank 1] a third\n");
}

TEST_F(Launch, WhatErasesALineIsNoPartOfIt) {
  EXPECT_EQ(run("printf '\\r\\033[Kepoch\\r\\033[Kthinwire: lost\\n' >&2; exit 1", 1), kRunFailed);
  EXPECT_TRUE(last_line().ends_with("lost")) << err_;
}

TEST_F(Launch, WorkersGetTorchrunsVariables) {
  ASSERT_EQ(run("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR "
                "$THINWIRE_LAUNCHER > rank$RANK; echo $MASTER_PORT > port$RANK",
                3),
            kOk);
  EXPECT_EQ(file("rank0"), "0 3 0 3 127.0.0.1 plain\n");
  EXPECT_EQ(file("rank2"), "2 3 2 3 127.0.0.1 plain\n");
  EXPECT_NE(file("port0"), "\n");
  EXPECT_EQ(file("port0"), file("port1"));
}

TEST_F(Launch, RankZeroAloneInheritsTheListeningSocket) {
  ASSERT_EQ(run("if [ -n \"$THINWIRE_MASTER_SOCKET\" ]; then\n"
                "  readlink /proc/self/fd/$THINWIRE_MASTER_SOCKET > socket$RANK\n"
                "fi\n"
                "ls -l /proc/self/fd | grep -c socket: > count$RANK; true",
                2),
            kOk);
  EXPECT_EQ(file("socket0").find("socket:"), 0u) << file("socket0");
  EXPECT_FALSE(std::filesystem::exists(left_behind_.path() / "socket1"));
  // Whatever sockets this process has inherited itself, rank 0 has one more.
  EXPECT_EQ(std::stoi(file("count0")), std::stoi(file("count1")) + 1);
}

TEST_F(Launch, OutputIsPrefixedButThatOfRankZero) {
  ASSERT_EQ(run("echo hello from $RANK >&2; if [ $RANK = 1 ]; then echo data; printf end; fi", 2),
            kOk);
  EXPECT_TRUE(err_has("hello from 0\n")) << err_;
  EXPECT_FALSE(err_has("[rank 0]")) << err_;
  EXPECT_TRUE(err_has("[rank 1] hello from 1\n")) << err_;
  EXPECT_TRUE(err_has("[rank 1] data\n")) << err_;
  EXPECT_TRUE(err_has("[rank 1] end\n")) << err_;
}

TEST_F(Launch, WhatAllSayIsSaidOnce) {
  ASSERT_EQ(run("if [ $RANK = 0 ]; then exit 0; fi; echo the same >&2", 5), kOk);
  EXPECT_EQ(err_.find("the same"), err_.rfind("the same")) << err_;
}

TEST_F(Launch, AKilledRankIsTheLastWord) {
  const std::string script =
      "if [ $RANK = 1 ]; then echo my last words >&2; kill -KILL $$; fi\n"
      "while kill -0 $(cat pid1) 2>/dev/null; do :; done; echo lost rank 1 >&2; exit 3";
  ASSERT_EQ(run("if [ $RANK = 1 ]; then echo $$ > pid1; fi\n"
                "until [ -s pid1 ]; do :; done\n" +
                    script,
                3),
            kRunFailed);
  EXPECT_TRUE(err_has("the last output of rank 1:\n  | my last words\n")) << err_;
  EXPECT_EQ(last_line().find("thinwire: rank 1 (" + host() + "): killed by SIGKILL after "), 0u)
      << err_;
  EXPECT_TRUE(err_has(
      " s; the other workers have stopped; SIGKILL may come from the kernel when memory runs out, "
      "see dmesg; rank "))
      << err_;
  EXPECT_TRUE(last_line().ends_with("; rank 0 wrote: lost rank 1") ||
              last_line().ends_with("; rank 2 wrote: lost rank 1"))
      << err_;
  ASSERT_TRUE(failure_);
  EXPECT_EQ(failure_->rank, 1);
  EXPECT_EQ(failure_->host, host());
  EXPECT_EQ(failure_->signal, "SIGKILL");
  EXPECT_EQ(failure_->code, std::nullopt);
  EXPECT_GT(failure_->seconds, Seconds(0));
  EXPECT_TRUE(failure_->stopped.empty());
  EXPECT_EQ("thinwire: " + failure_->text, last_line());
}

TEST_F(Launch, WhoNoticedAnothersDeathIsNotToBlame) {
  // Rank 0 ends first, but says that a peer is to blame.
  ASSERT_EQ(run("if [ $RANK = 0 ]; then echo lost rank 1 >&2; touch gone; exit 3; fi\n"
                "until [ -e gone ]; do :; done; echo no such file >&2; exit 1",
                2),
            kRunFailed);
  ASSERT_TRUE(failure_);
  EXPECT_EQ(failure_->rank, 1);
  EXPECT_EQ(failure_->signal, "");
  EXPECT_EQ(failure_->code, 1);
  EXPECT_TRUE(err_has("): ended with exit code 1 after ")) << err_;
  EXPECT_TRUE(last_line().ends_with("; it wrote: no such file")) << err_;
}

TEST_F(Launch, BadUsageStaysBadUsage) {
  EXPECT_EQ(run("echo no such interface >&2; exit 2", 2), kBadUsage);
  EXPECT_NE(last_line().find("no such interface"), std::string::npos) << err_;
}

TEST_F(Launch, SurvivorsThatHangAreStopped) {
  // Rank 1 ignores SIGTERM as well.
  ASSERT_EQ(run("if [ $RANK = 2 ]; then exit 7; fi\n"
                "if [ $RANK = 1 ]; then trap '' TERM; fi\n"
                "echo $$ > pid$RANK; exec sleep 100",
                3, Seconds(0.2)),
            kRunFailed);
  ASSERT_TRUE(failure_);
  EXPECT_EQ(failure_->rank, 2);
  EXPECT_EQ(failure_->code, 7);
  EXPECT_EQ(failure_->stopped, (std::vector<int>{0, 1}));
  EXPECT_NE(kill(std::stoi(file("pid0")), 0), 0);
  EXPECT_NE(kill(std::stoi(file("pid1")), 0), 0);
}

TEST_F(Launch, WhoHangsIsToBlameForThoseWhoGaveUp) {
  ASSERT_EQ(
      run("if [ $RANK = 1 ]; then exec sleep 100; fi; echo no answer from rank 1 >&2; exit 3", 3),
      kRunFailed);
  EXPECT_EQ(last_line().find("thinwire: rank 1 (" + host() + "): hung; stopped 2 s after rank "),
            0u)
      << err_;
  ASSERT_TRUE(failure_);
  EXPECT_EQ(failure_->code, kPeerFailed);
  EXPECT_EQ(failure_->stopped, std::vector<int>{1});
  EXPECT_NE(last_line().find("no answer from rank 1"), std::string::npos) << err_;
}

// Stopped on its way out, after the others have gone.
TEST_F(Launch, WhoDoesNotEndWithTheOthersIsStoppedAndNamed) {
  ASSERT_EQ(run("if [ $RANK = 1 ]; then echo $$ > pid1; kill -STOP $$; fi\n"
                "until [ -s pid1 ]; do :; done",
                2, Seconds(0.2), Seconds(0.1)),
            kRunFailed);
  EXPECT_EQ(last_line().find("thinwire: rank 1 (" + host() + "): did not end after the run"), 0u)
      << err_;
  ASSERT_TRUE(failure_);
  EXPECT_EQ(failure_->rank, kNoRank);
  EXPECT_EQ(failure_->stopped, std::vector<int>{1});
  EXPECT_NE(kill(std::stoi(file("pid1")), 0), 0);
}

TEST_F(Launch, WhoNeverNoticedADeathIsNamedWithIt) {
  ASSERT_EQ(run("if [ $RANK = 1 ]; then kill -KILL $$; fi; exec sleep 100", 2, Seconds(0.2)),
            kRunFailed);
  EXPECT_TRUE(err_has("; stopped 0.2 s later: rank 0")) << err_;
  ASSERT_TRUE(failure_);
  EXPECT_EQ(failure_->rank, 1);
  EXPECT_EQ(failure_->signal, "SIGKILL");
  EXPECT_EQ(failure_->stopped, std::vector<int>{0});
}

TEST_F(Launch, CtrlCStopsEveryWorker) {
  // A worker interrupts its launcher once all are there; one of them ignores SIGTERM. If they are
  // not stopped, they sleep for longer than this test may take.
  ASSERT_EQ(run("if [ $RANK = 1 ]; then trap '' TERM; fi\n"
                "echo $$ > pid$RANK; until [ -s pid0 ] && [ -s pid1 ] && [ -s pid2 ]; do :; done\n"
                "if [ $RANK = 2 ]; then kill -INT $PPID; fi; exec sleep 3600",
                3),
            kInterrupted);
  EXPECT_FALSE(failure_);
  for (const char* name : {"pid0", "pid1", "pid2"}) {
    EXPECT_NE(kill(std::stoi(file(name)), 0), 0) << name;
  }
  EXPECT_TRUE(err_has("interrupted; all 3 workers have stopped")) << err_;
}

TEST_F(Launch, TerminationIsAnInterruption) {
  EXPECT_EQ(run("if [ $RANK = 1 ]; then kill -TERM $PPID; fi; exec sleep 100", 2), kInterrupted);
}

TEST_F(Launch, WorkersLeaveCtrlCToTheLauncher) {
  EXPECT_EQ(run("kill -INT $$; echo alive > alive$RANK", 2), kOk);
  EXPECT_EQ(file("alive0"), "alive\n");
  EXPECT_EQ(file("alive1"), "alive\n");
}

TEST_F(Launch, AProgramThatDoesNotExistIsSaidSo) {
  LaunchOptions options;
  options.command = {"/no/such/program"};
  std::ostringstream out, err;
  Io io{out, err, [](std::string_view) { return std::nullopt; }};
  EXPECT_EQ(launch_workers(options, io), kRunFailed);
  EXPECT_NE(err.str().find("cannot start /no/such/program: No such file"), std::string::npos)
      << err.str();
}

}  // namespace
}  // namespace thinwire::launch
