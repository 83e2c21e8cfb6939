#include "report/compare_progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "base/readable.h"
#include "launch/console.h"
#include "observe/progress_text.h"
#include "thinwire/transport.h"

namespace thinwire::report {
namespace {

constexpr std::size_t kShownMessages = 8;  // per run; one that diverges warns in every step
constexpr std::size_t kLastLines = 5;      // of stderr
constexpr Seconds kPlainLineEvery{1};      // where there is no terminal to rewrite a line on

struct Screen {
  int columns = 100, rows = 24;
};

Screen screen() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row};
}

}  // namespace

CompareProgress::CompareProgress(launch::Io& io, const Comparison& comparison)
    : io_(io), comparison_(comparison), table_(comparison) {
  const Screen here = screen();
  columns_ = here.columns;
  in_place_ = io.live && comparison.runs.size() + 2 < static_cast<std::size_t>(here.rows);
}

void CompareProgress::begin(std::size_t run) {
  current_ = run;
  running_ = true;
  status_ = "starting";
  messages_ = 0;
  if (in_place_) {
    draw();
  } else {
    io_.err << fmt::format("[{}/{}] {}\n", run + 1, comparison_.runs.size(),
                           comparison_.runs[run].strategy)
            << std::flush;
  }
}

void CompareProgress::status(std::string_view text) {
  status_ = text;
  if (in_place_) {
    draw();
  } else {
    io_.err << text << '\n' << std::flush;
  }
}

void CompareProgress::message(std::string_view text) {
  if (++messages_ > kShownMessages) return;
  clear();
  io_.err << text << '\n' << std::flush;
  if (in_place_) draw();
}

void CompareProgress::end() {
  running_ = false;
  if (messages_ > kShownMessages) {
    clear();
    io_.err << fmt::format("... and {} more lines\n", messages_ - kShownMessages);
  }
  if (in_place_) {
    draw();
    return;
  }
  const ComparedRun& run = comparison_.runs[current_];
  io_.err << (run.finished()
                  ? fmt::format("{}: accuracy {:.1f} % after {}, {} per worker and step\n",
                                run.strategy, 100 * run.accuracy,
                                base::readable_time(Seconds(run.seconds)),
                                base::readable_bytes(run.bytes_per_worker_step))
                  : fmt::format("{} {}\n", run.strategy, state_of(current_)))
          << std::flush;
}

void CompareProgress::clear() {
  if (drawn_ > 0) io_.err << fmt::format("\033[{}A\033[J", drawn_) << std::flush;
  drawn_ = 0;
}

std::string CompareProgress::state_of(std::size_t run) const {
  if (running_ && run == current_) return status_;
  const std::string& problem = comparison_.runs[run].problem;
  return problem.empty() ? "waiting" : "failed: " + problem;
}

void CompareProgress::draw() {
  clear();
  const Recommendation recommendation = recommend(comparison_);
  // A line that wraps would count as two when the cursor goes back.
  const auto line = [&](const std::string& text, std::string_view emphasis) {
    const std::string_view plain = emphasis.empty() ? "" : "\033[0m";
    io_.err << emphasis << text.substr(0, static_cast<std::size_t>(columns_ - 1)) << plain << '\n';
    ++drawn_;
  };
  line(table_.heading(recommendation), io_.color_err ? "\033[1m" : "");
  for (std::size_t i = 0; i < comparison_.runs.size(); ++i) {
    const bool now = running_ && i == current_;
    line(
        table_.row(comparison_.runs[i], recommendation.comparisons[i], recommendation, state_of(i)),
        now && io_.color_err ? "\033[36m" : "");
  }
  io_.err << std::flush;
}

void RunWatcher::read_events() {
  std::optional<std::string> step;
  for (const observe::Json& event : events_.read_new()) {
    if (event["event"] == "step") {
      step = observe::step_text(event);
    } else {
      show(event);
    }
  }
  const Seconds now = system_runtime().now();
  if (!step || (!progress_.in_place() && now - last_plain_line_ < kPlainLineEvery)) return;
  last_plain_line_ = now;
  progress_.status(*step);
}

void RunWatcher::show(const observe::Json& event) {
  const auto text_of = [&](const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const std::string name = text_of("event"), text = text_of("text");
  if (name == "evaluated") {
    progress_.status(observe::evaluated_text(event));
  } else if (name == "note") {
    progress_.message(fmt::format("{}{}", launch::kErrorPrefix, text));
  } else if (name == "warning") {
    const auto rank = event.find("rank");
    const bool other = rank != event.end() && rank->is_number_integer() && *rank != 0;
    const std::string source = other ? fmt::format("[rank {}] ", rank->get<int>()) : "";
    warnings_.push_back(source + text);
    progress_.message(fmt::format("{}{}{}", source, launch::kWarningPrefix, text));
  } else if (name == "error" && error_.empty()) {
    const std::string kind = text_of("kind");
    const bool of_a_peer = kind == to_string(ErrorKind::join) ||
                           kind == to_string(ErrorKind::lost) ||
                           kind == to_string(ErrorKind::deadline);
    if (!of_a_peer) error_ = text;
  } else if (name == "exit") {
    exit_ = text;
  }
}

std::string RunWatcher::problem(int exit_code) const {
  if (!error_.empty()) return error_;
  if (!exit_.empty()) return exit_;
  if (last_lines_.empty()) return fmt::format("it ended with exit code {}", exit_code);
  // The event stream could not be written.
  std::string_view last = last_lines_.back();
  if (last.starts_with(launch::kErrorPrefix)) last.remove_prefix(launch::kErrorPrefix.size());
  return std::string(last);
}

RunWatcher::int_type RunWatcher::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char next = traits_type::to_char_type(c);
  if (next == '\n') {
    finish_line();
  } else if (next == '\r') {  // a live line begins again
    line_.clear();
  } else {
    line_.push_back(next);
    if (line_ == launch::kEraseLine.substr(1)) line_.clear();
  }
  return c;
}

int RunWatcher::sync() {
  read_events();
  return 0;
}

void RunWatcher::finish_line() {
  if (!line_.empty()) last_lines_.push_back(std::exchange(line_, {}));
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
  read_events();
}

}  // namespace thinwire::report
