#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace thinwire::base {
namespace {

using Input = SubprocessOptions::Input;
using Output = SubprocessOptions::Output;

[[noreturn]] void fail(const std::string& program, int error, const char* call = nullptr) {
  const std::string detail = call == nullptr ? "" : fmt::format(" ({})", call);
  throw std::system_error(error, std::generic_category(),
                          fmt::format("cannot start {}{}", program, detail));
}

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;

  static Pipe make(const std::string& program) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail(program, errno, "pipe2");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

std::string_view name_of(std::string_view line) { return line.substr(0, line.find('=')); }

// Everything that the child needs, prepared before fork().
struct Child {
  std::vector<char*> command;
  std::vector<char*> environment;
  const SubprocessOptions& options;
  pid_t parent;
  int in;  // descriptors for the standard streams; -1 keeps the one of this process
  int out;
  int err;
  int status;  // receives errno if the program cannot be executed

  // Between fork() and exec() only async-signal-safe calls are allowed.
  [[noreturn]] void become() const noexcept {
    if (options.new_session) setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before the call above
    set_action(SIGTERM, SIG_DFL);
    if (options.ignore_interrupt) set_action(SIGINT, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (in >= 0) dup2(in, STDIN_FILENO);
    if (err >= 0) dup2(err, STDERR_FILENO);
    if (out >= 0) dup2(out, STDOUT_FILENO);
    if (options.out == Output::to_stderr) dup2(STDERR_FILENO, STDOUT_FILENO);
    for (const int fd : options.inherited) fcntl(fd, F_SETFD, 0);
    execvpe(command[0], command.data(), environment.data());
    const int error = errno;
    _exit(write(status, &error, sizeof error) < 0 ? 126 : 127);
  }

  static void set_action(int signal, void (*handler)(int)) noexcept {
    struct sigaction action {};
    action.sa_handler = handler;
    sigaction(signal, &action, nullptr);
  }
};

// Returns the error for which the program was not executed; 0 if it runs.
int read_status(int fd) {
  int error = 0;
  ssize_t got = 0;
  while ((got = read(fd, &error, sizeof error)) < 0 && errno == EINTR) {
  }
  return got == sizeof error ? error : 0;
}

}  // namespace

std::string ProcessExit::describe() const {
  return by_signal ? fmt::format("killed by {}", signal_name())
                   : fmt::format("ended with exit code {}", number);
}

std::string ProcessExit::signal_name() const {
  if (!by_signal) return "";
  const char* name = sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

std::vector<std::string> environment_with(std::span<const std::string> changes) {
  std::vector<std::string> out;
  for (char** line = environ; *line != nullptr; ++line) {
    const bool replaced = std::ranges::any_of(
        changes, [&](std::string_view change) { return name_of(change) == name_of(*line); });
    if (!replaced) out.emplace_back(*line);
  }
  out.insert(out.end(), changes.begin(), changes.end());
  return out;
}

Subprocess::Subprocess(const SubprocessOptions& options) {
  if (options.command.empty()) throw std::invalid_argument("subprocess: the command is empty");
  const std::string& program = options.command.front();
  Pipe out, err;
  if (options.out == Output::pipe) out = Pipe::make(program);
  if (options.err == Output::pipe) err = Pipe::make(program);
  UniqueFd null;
  if (options.in == Input::null) {
    null.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null) fail(program, errno, "/dev/null");
  }
  Pipe status = Pipe::make(program);
  const Child child{pointers(options.command),
                    pointers(options.environment),
                    options,
                    getpid(),
                    null.get(),
                    out.write_end.get(),
                    err.write_end.get(),
                    status.write_end.get()};
  pid_ = fork();
  if (pid_ < 0) fail(program, errno, "fork");
  if (pid_ == 0) child.become();
  for (UniqueFd* fd : {&null, &out.write_end, &err.write_end, &status.write_end}) fd->reset();

  int error = read_status(status.read_end.get());
  const char* call = nullptr;
  status.read_end.reset();
  if (error == 0) {
    // Called by number, because glibc 2.36 declares pidfd_open without C linkage.
    pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    if (!pidfd_) error = errno, call = "pidfd_open";
  }
  if (error != 0) {
    kill(pid_, SIGKILL);
    reap();
    fail(program, error, call);
  }
  for (Pipe* pipe : {&out, &err}) {
    if (pipe->read_end) fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  }
  out_ = std::move(out.read_end);
  err_ = std::move(err.read_end);
}

Subprocess::~Subprocess() {
  if (exit_) return;
  kill(pid_, SIGKILL);
  reap();
}

std::optional<ProcessExit> Subprocess::wait(Seconds limit) {
  if (!exit_ && peek(limit)) reap();
  return exit_;
}

std::optional<ProcessExit> Subprocess::peek(Seconds limit) const {
  using Clock = std::chrono::steady_clock;
  if (exit_) return exit_;
  const auto start = Clock::now();
  while (true) {
    const double left = (limit - Seconds(Clock::now() - start)).count();
    const int milliseconds = static_cast<int>(std::ceil(std::clamp(left * 1e3, 0.0, 1e9)));
    pollfd event{pidfd_.get(), POLLIN, 0};
    const int ready = poll(&event, 1, milliseconds);
    if (ready > 0) break;
    if (ready < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "subprocess: poll");
    }
    if (ready == 0 && left <= 0) return std::nullopt;
  }
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  return ProcessExit{info.si_code != CLD_EXITED, info.si_status};
}

void Subprocess::signal(int number) const noexcept {
  if (!exit_) kill(pid_, number);
}

void Subprocess::reap() noexcept {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) < 0 && errno == EINTR) {
  }
  exit_ = ProcessExit{info.si_code != CLD_EXITED, info.si_status};
}

}  // namespace thinwire::base
