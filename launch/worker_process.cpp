#include "launch/worker_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "launch/console.h"

namespace thinwire::launch {
namespace {

base::SubprocessOptions worker_options(int rank, const std::vector<std::string>& command,
                                       const std::vector<std::string>& environment, int inherited) {
  using Options = base::SubprocessOptions;
  Options options;
  options.command = command;
  options.environment = environment;
  options.in = rank == 0 ? Options::Input::inherit : Options::Input::null;
  options.out = rank == 0 ? Options::Output::inherit : Options::Output::to_stderr;
  options.err = Options::Output::pipe;
  if (inherited >= 0) options.inherited = {inherited};
  options.ignore_interrupt = true;
  return options;
}

}  // namespace

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

WorkerProcess::WorkerProcess(int rank, const std::vector<std::string>& command,
                             const std::vector<std::string>& environment, int inherited)
    : rank_(rank), process_(worker_options(rank, command, environment, inherited)) {}

void WorkerProcess::forward_output(Relay& relay) {
  char buffer[4096];
  while (process_.err()) {
    const ssize_t bytes = read(process_.err().get(), buffer, sizeof buffer);
    if (bytes > 0) {
      append({buffer, static_cast<std::size_t>(bytes)}, relay);
    } else if (bytes < 0 && errno == EINTR) {
      continue;
    } else {
      if (bytes == 0) process_.err().reset();
      break;
    }
  }
  relay.flush();
}

void WorkerProcess::append(std::string_view text, Relay& relay) {
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

void WorkerProcess::reap(Relay& relay) {
  exit_ = process_.wait(Seconds(0));  // does not wait: end_event() is readable
  forward_output(relay);
  process_.err().reset();
  if (!line_.empty()) {
    relay.bytes(rank_, "\n");
    finish_line(relay);
  }
  relay.flush();
}

}  // namespace thinwire::launch
