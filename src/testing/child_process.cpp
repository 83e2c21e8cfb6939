#include "testing/child_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

namespace thinwire::test {
namespace {

// There is no event for the end of a process that is not our child.
constexpr Seconds kPollInterval{0.01};

base::SubprocessOptions in_own_session(const Words& command, const Words& environment) {
  base::SubprocessOptions options;
  options.command = command;
  options.environment = base::environment_with(environment);
  options.out = options.err = base::SubprocessOptions::Output::pipe;
  options.new_session = true;
  return options;
}

struct ProcessLine {
  char state = '?';
  pid_t session = -1;
};

// Reads /proc/PID/stat, whose second field, the name in parentheses, may contain any character.
std::optional<ProcessLine> read_process(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;  // the process has just ended
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
bool poll_until(Condition condition, Seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

}  // namespace

ChildProcess::ChildProcess(const Words& command, const Words& environment)
    : process_(in_own_session(command, environment)), watcher_([this] { watch(); }) {}

ChildProcess::~ChildProcess() {
  kill_all();
  watcher_.join();
}

void ChildProcess::watch() {
  const int out = process_.out().get(), err = process_.err().get();
  pollfd events[] = {{out, POLLIN, 0}, {err, POLLIN, 0}, {process_.pidfd(), POLLIN, 0}};
  while (true) {
    if (poll(events, 3, -1) < 0 && errno != EINTR) break;
    // The end is checked before the pipes are emptied, so that no output written before is missed.
    const bool ended = events[2].revents != 0;
    append_output(out_, out);
    append_output(err_, err);
    if (ended) break;
    for (pollfd& stream : {std::ref(events[0]), std::ref(events[1])}) {
      if ((stream.revents & (POLLHUP | POLLERR)) != 0) stream.fd = -1;  // closed: ignored by poll
    }
  }
  // The program is not reaped, so that its pid, which names the session, is not given to another
  // process.
  const auto exit = process_.peek(Seconds(0));
  const std::lock_guard lock(mutex_);
  exit_ = exit;
  changed_.notify_all();
}

void ChildProcess::append_output(std::string& stream, int fd) {
  char buffer[4096];
  ssize_t bytes = 0;
  while ((bytes = read(fd, buffer, sizeof buffer)) > 0) {
    const std::lock_guard lock(mutex_);
    stream.append(buffer, static_cast<std::size_t>(bytes));
    merged_.append(buffer, static_cast<std::size_t>(bytes));
    changed_.notify_all();
  }
}

bool ChildProcess::wait(Seconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return exit_.has_value(); });
}

bool ChildProcess::wait_for_output(std::string_view text, Seconds limit) {
  std::unique_lock lock(mutex_);
  const auto seen = [&] { return merged_.find(text) != std::string::npos; };
  changed_.wait_for(lock, limit, [&] { return exit_ || seen(); });
  return seen();
}

bool ChildProcess::wait_for_descendants(Seconds limit) {
  return poll_until([&] { return running().empty(); }, limit);
}

void ChildProcess::signal(int number) {
  const std::lock_guard lock(mutex_);
  if (!exit_) process_.signal(number);
}

void ChildProcess::kill_all() {
  // Repeated, because a process that is killed may just have started another one.
  poll_until(
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
    if (line && line->session == pid() && line->state != 'Z' && line->state != 'X') {
      out.push_back(std::stoi(name));
    }
  }
  return out;
}

std::optional<int> ChildProcess::exit_code() const {
  const std::lock_guard lock(mutex_);
  if (!exit_ || exit_->by_signal) return std::nullopt;
  return exit_->number;
}

std::optional<int> ChildProcess::ended_by_signal() const {
  const std::lock_guard lock(mutex_);
  if (!exit_ || !exit_->by_signal) return std::nullopt;
  return exit_->number;
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

}  // namespace thinwire::test
