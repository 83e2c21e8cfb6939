#include "testing/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace thinwire::test {
namespace {

constexpr Seconds kLookAgain{0.01};  // there is no event for the end of another's child

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe2");
    read = ends[0];
    write = ends[1];
  }
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

// The later of two values of a name counts.
std::vector<std::string> merge_environment(const std::vector<std::string>& added) {
  const auto name = [](std::string_view line) { return line.substr(0, line.find('=')); };
  std::vector<std::string> out(added);
  for (char** line = environ; *line != nullptr; ++line) {
    bool replaced = false;
    for (const std::string& other : added) replaced |= name(other) == name(*line);
    if (!replaced) out.emplace_back(*line);
  }
  return out;
}

// Between fork and exec of a process with threads only async-signal-safe calls are allowed.
[[noreturn]] void become(char* const* command, char* const* environment, pid_t parent, int out,
                         int err, int trouble) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) {  // else it died before the line above
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int in = open("/dev/null", O_RDONLY);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execvpe(command[0], command, environment);
    const int code = errno;
    if (write(trouble, &code, sizeof code) < 0) _exit(126);
  }
  _exit(127);
}

struct ProcessLine {
  char state = '?';
  pid_t session = -1;
};

// From /proc/PID/stat, whose second field, the name in parentheses, may contain anything.
std::optional<ProcessLine> read_process(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;  // it has just ended
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  ProcessLine line;
  int parent = 0, group = 0;
  if (std::sscanf(text.c_str() + name_end + 1, " %c %d %d %d", &line.state, &parent, &group,
                  &line.session) != 4) {
    return std::nullopt;
  }
  return line;
}

template <class Condition>
bool look_until(Condition condition, Seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const std::vector<std::string>& environment) {
  if (command.empty()) throw std::invalid_argument("no program to start");
  const std::vector<std::string> all_variables = merge_environment(environment);
  const std::vector<char*> words = pointers(command), variables = pointers(all_variables);
  const Pipe out, err, trouble;
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {
    become(words.data(), variables.data(), parent, out.write, err.write, trouble.write);
  }
  for (const int descriptor : {out.write, err.write, trouble.write}) close(descriptor);
  int code = 0;
  const bool started = read(trouble.read, &code, sizeof code) <= 0;
  close(trouble.read);
  if (!started) {
    for (const int descriptor : {out.read, err.read}) close(descriptor);
    reap();
    throw std::system_error(code, std::generic_category(), "cannot start " + command[0]);
  }
  // glibc 2.36 declares pidfd_open without C linkage.
  const int ended = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (ended < 0) fail("pidfd_open");
  watcher_ = std::thread([=, this] { watch(out.read, err.read, ended); });
}

ChildProcess::~ChildProcess() {
  kill_all();
  watcher_.join();
  reap();
}

void ChildProcess::watch(int out, int err, int ended) {
  for (const int descriptor : {out, err}) fcntl(descriptor, F_SETFL, O_NONBLOCK);
  pollfd events[] = {{out, POLLIN, 0}, {err, POLLIN, 0}, {ended, POLLIN, 0}};
  while (true) {
    if (poll(events, 3, -1) < 0 && errno != EINTR) break;
    // The end is looked at before the output is emptied, so that nothing written before is missed.
    const bool over = events[2].revents != 0;
    take(out_, out);
    take(err_, err);
    if (over) break;
    for (pollfd& stream : {std::ref(events[0]), std::ref(events[1])}) {
      if ((stream.revents & (POLLHUP | POLLERR)) != 0) stream.fd = -1;  // closed: not asked again
    }
  }
  siginfo_t info{};
  // Unreaped, so that its number, which names the session, is not given to another process.
  waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  for (const int descriptor : {out, err, ended}) close(descriptor);
  const std::lock_guard lock(mutex_);
  status_ = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
  ended_ = true;
  changed_.notify_all();
}

void ChildProcess::take(std::string& stream, int descriptor) {
  char buffer[4096];
  ssize_t bytes = 0;
  while ((bytes = read(descriptor, buffer, sizeof buffer)) > 0) {
    const std::lock_guard lock(mutex_);
    stream.append(buffer, static_cast<std::size_t>(bytes));
    merged_.append(buffer, static_cast<std::size_t>(bytes));
    changed_.notify_all();
  }
}

bool ChildProcess::wait(Seconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return ended_; });
}

bool ChildProcess::wait_for_output(std::string_view text, Seconds patience) {
  std::unique_lock lock(mutex_);
  const auto seen = [&] { return merged_.find(text) != std::string::npos; };
  changed_.wait_for(lock, patience, [&] { return ended_ || seen(); });
  return seen();
}

bool ChildProcess::wait_for_descendants(Seconds patience) {
  return look_until([&] { return running().empty(); }, patience);
}

void ChildProcess::signal(int number) {
  const std::lock_guard lock(mutex_);
  if (!ended_) kill(pid_, number);
}

void ChildProcess::kill_all() {
  // Again and again, for one may be starting another right now.
  look_until(
      [&] {
        const std::vector<pid_t> left = running();
        for (const pid_t pid : left) kill(pid, SIGKILL);
        return left.empty();
      },
      Seconds(10));
}

std::vector<pid_t> ChildProcess::running() const {
  std::vector<pid_t> out;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto line = read_process(entry.path());
    if (line && line->session == pid_ && line->state != 'Z' && line->state != 'X') {
      out.push_back(std::stoi(name));
    }
  }
  return out;
}

std::optional<int> ChildProcess::exit_code() const {
  const std::lock_guard lock(mutex_);
  if (!ended_ || status_ < 0) return std::nullopt;
  return status_;
}

std::optional<int> ChildProcess::ended_by_signal() const {
  const std::lock_guard lock(mutex_);
  if (!ended_ || status_ >= 0) return std::nullopt;
  return -status_;
}

std::string ChildProcess::describe() const {
  std::string how = "still running";
  if (const auto code = exit_code()) how = fmt::format("exit code {}", *code);
  if (const auto number = ended_by_signal()) how = fmt::format("signal {}", *number);
  return fmt::format("{}; output:\n{}", how, merged());
}

std::string ChildProcess::copy(const std::string& text) const {
  const std::lock_guard lock(mutex_);
  return text;
}

void ChildProcess::reap() {
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace thinwire::test
