#include "base/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <system_error>

namespace thinwire::base {
namespace {

using Output = SubprocessOptions::Output;

constexpr Seconds kLimit{30};

SubprocessOptions shell(std::string script, Output out = Output::inherit,
                        Output err = Output::inherit) {
  SubprocessOptions options;
  options.command = {"sh", "-c", std::move(script)};
  options.environment = environment_with({});
  options.out = out;
  options.err = err;
  return options;
}

std::string read_to_end(const UniqueFd& fd) {
  std::string text;
  char buffer[256];
  while (true) {
    pollfd event{fd.get(), POLLIN, 0};
    poll(&event, 1, -1);
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

TEST(Subprocess, ReturnsTheExitCodeOrTheSignal) {
  const auto failed = Subprocess(shell("exit 3")).wait(kLimit);
  ASSERT_TRUE(failed);
  EXPECT_FALSE(failed->succeeded());
  EXPECT_EQ(failed->describe(), "ended with exit code 3");
  const auto killed = Subprocess(shell("kill -TERM $$")).wait(kLimit);
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->describe(), "killed by SIGTERM");
  EXPECT_EQ(killed->signal_name(), "SIGTERM");
  EXPECT_TRUE(Subprocess(shell("exit 0")).wait(kLimit)->succeeded());
}

TEST(Subprocess, ConnectsTheStreams) {
  const std::string script = "cat; echo out; echo err >&2";
  Subprocess apart(shell(script, Output::pipe, Output::pipe));
  EXPECT_EQ(read_to_end(apart.out()), "out\n");
  EXPECT_EQ(read_to_end(apart.err()), "err\n");
  Subprocess joined(shell(script, Output::to_stderr, Output::pipe));
  EXPECT_FALSE(joined.out());
  EXPECT_EQ(read_to_end(joined.err()), "out\nerr\n");
}

TEST(Subprocess, PassesEnvironmentAndDescriptors) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  auto options = shell("echo $THINWIRE_COLOUR $HOME >&$FD");
  const std::vector<std::string> changes = {"THINWIRE_COLOUR=green", "HOME=/nowhere",
                                            "FD=" + std::to_string(write_end.get())};
  options.environment = environment_with(changes);
  options.inherited = {write_end.get()};
  const Subprocess process(options);
  write_end.reset();
  EXPECT_EQ(read_to_end(read_end), "green /nowhere\n");
}

TEST(Subprocess, WaitsNoLongerThanTheLimit) {
  Subprocess process(shell("exec sleep 1000"));
  EXPECT_EQ(process.wait(Seconds(0)).has_value(), false);
  EXPECT_EQ(process.wait(Seconds(0.01)).has_value(), false);
  process.signal(SIGKILL);
  const auto peeked = process.peek(kLimit);
  ASSERT_TRUE(peeked);
  EXPECT_EQ(kill(process.pid(), 0), 0) << "peek() keeps the pid";
  EXPECT_EQ(process.wait(kLimit)->number, SIGKILL);
  EXPECT_EQ(process.peek(Seconds(0))->number, SIGKILL);
  process.signal(SIGKILL);  // has no effect
}

TEST(Subprocess, IsKilledByItsDestructor) {
  pid_t pid = -1;
  {
    const Subprocess process(shell("trap '' TERM; exec sleep 1000"));
    pid = process.pid();
  }
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Subprocess, SetsSignalsAndSession) {
  // A shell started with SIGINT ignored cannot trap it: the program goes on.
  auto options = shell("kill -INT $$; echo alive", Output::pipe);
  options.ignore_interrupt = true;
  options.new_session = true;
  Subprocess process(options);
  EXPECT_EQ(getsid(process.pid()), process.pid());
  EXPECT_EQ(read_to_end(process.out()), "alive\n");
}

TEST(Subprocess, ThrowsIfTheProgramCannotBeStarted) {
  SubprocessOptions options;
  options.command = {"/no/such/program"};
  try {
    const Subprocess process(options);
    FAIL() << "a program that does not exist was started";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_EQ(std::string_view(error.what()),
              "cannot start /no/such/program: No such file or directory");
  }
  options.command.clear();
  EXPECT_THROW(Subprocess{options}, std::invalid_argument);
}

}  // namespace
}  // namespace thinwire::base
