#include "launch/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include "launch/console.h"

namespace thinwire::launch {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

struct Child {
  std::vector<char*> command;
  std::vector<char*> environment;
  int rank;
  int output;
  int inherited;
  pid_t parent;

  // Between fork and exec only async-signal-safe calls are allowed.
  [[noreturn]] void become() const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // it died before the line above
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, nullptr);
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGTERM, &standard, nullptr);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (rank != 0) {
      dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
      dup2(output, STDOUT_FILENO);
    }
    dup2(output, STDERR_FILENO);
    if (inherited >= 0) fcntl(inherited, F_SETFD, 0);
    execve(command[0], command.data(), environment.data());
    const char* reason = strerrordesc_np(errno);
    for (const char* part : {"cannot start ", static_cast<const char*>(command[0]), ": ", reason}) {
      if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
    }
    _exit(127);
  }
};

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

void Relay::bytes(int rank, std::string_view text) {
  if (rank != 0 || text.empty()) return;
  err_ << text;
  const std::string_view last = text.substr(text.find_last_of('\n') + 1);
  live_line_ = !last.empty() && (live_line_ || last.find('\r') != std::string_view::npos);
}

void Relay::line(int rank, const std::string& text) {
  if (rank != 0 && text != last_line_) {
    err_ << fmt::format("{}[rank {}] {}\n", std::exchange(live_line_, false) ? kEraseLine : "",
                        rank, text);
  }
  last_line_ = text;
}

std::string ProcessExit::describe() const {
  if (!by_signal) return fmt::format("ended with exit code {}", number);
  const char* name = sigabbrev_np(number);
  return name == nullptr ? fmt::format("was killed by signal {}", number)
                         : fmt::format("was killed by SIG{}", name);
}

WorkerProcess::WorkerProcess(int rank, const std::vector<std::string>& command,
                             const std::vector<std::string>& environment, int inherited)
    : rank_(rank) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe2");
  output_ = Descriptor(ends[0]);
  const Descriptor write_end(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const Child child{pointers(command), pointers(environment), rank, ends[1], inherited, getpid()};
  pid_ = fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) child.become();
  // By number, because glibc 2.36 declares pidfd_open without C linkage.
  end_event_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (end_event_.number() < 0) {
    const int reason = errno;
    kill(pid_, SIGKILL);
    record_exit();
    errno = reason;
    fail("pidfd_open");
  }
}

WorkerProcess::~WorkerProcess() {
  if (!running()) return;
  kill(pid_, SIGKILL);
  record_exit();
}

void WorkerProcess::forward_output(Relay& relay) {
  char buffer[4096];
  while (output_.number() >= 0) {
    const ssize_t bytes = read(output_.number(), buffer, sizeof buffer);
    if (bytes > 0) {
      take({buffer, static_cast<std::size_t>(bytes)}, relay);
    } else if (bytes < 0 && errno == EINTR) {
      continue;
    } else {
      if (bytes == 0) output_ = Descriptor();
      break;
    }
  }
  relay.flush();
}

void WorkerProcess::take(std::string_view text, Relay& relay) {
  relay.bytes(rank_, text);
  for (const char c : text) {
    if (c == '\n') {
      finish_line(relay);
    } else if (c == '\r') {
      line_.clear();
    } else {
      line_.push_back(c);
      if (line_ == kEraseLine.substr(1)) line_.clear();
    }
  }
}

void WorkerProcess::finish_line(Relay& relay) {
  relay.line(rank_, line_);
  last_lines_.push_back(std::exchange(line_, {}));
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
}

void WorkerProcess::record_exit() {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) < 0 && errno == EINTR) {
  }
  exit_ = ProcessExit{info.si_code != CLD_EXITED, info.si_status};
}

void WorkerProcess::reap(Relay& relay) {
  record_exit();
  forward_output(relay);
  output_ = Descriptor();
  if (!line_.empty()) {
    relay.bytes(rank_, "\n");
    finish_line(relay);
  }
  relay.flush();
}

void WorkerProcess::signal(int number) {
  if (running()) kill(pid_, number);
}

}  // namespace thinwire::launch
