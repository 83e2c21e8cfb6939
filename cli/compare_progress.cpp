#include "cli/compare_progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "base/readable.h"
#include "launch/console.h"

namespace thinwire::cli {
namespace {

constexpr std::size_t kShownMessages = 8;  // of one run; one that diverges warns in every step

struct Screen {
  int columns = 100, rows = 24;
};

Screen screen() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row};
}

}  // namespace

CompareProgress::CompareProgress(launch::Io& io, const report::Comparison& comparison)
    : io_(io), comparison_(comparison), table_(comparison) {
  const Screen here = screen();
  columns_ = here.columns;
  in_place_ = io.live && comparison.runs.size() + 2 < static_cast<std::size_t>(here.rows);
}

void CompareProgress::begin(std::size_t run) {
  current_ = run;
  running_ = true;
  status_ = "starting";
  messages_.clear();
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
  messages_.emplace_back(text);
  if (messages_.size() > kShownMessages) return;
  clear();
  io_.err << text << '\n' << std::flush;
  if (in_place_) draw();
}

void CompareProgress::end() {
  running_ = false;
  if (messages_.size() > kShownMessages) {
    clear();
    io_.err << fmt::format("... and {} more lines\n", messages_.size() - kShownMessages);
  }
  if (in_place_) {
    draw();
    return;
  }
  const report::ComparedRun& run = comparison_.runs[current_];
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
  const report::Recommendation recommendation = report::recommend(comparison_);
  // A line that wraps would count as two when the cursor goes back.
  const auto line = [&](const std::string& text, std::string_view emphasis) {
    const std::string_view plain = emphasis.empty() ? "" : "\033[0m";
    io_.err << emphasis << text.substr(0, static_cast<std::size_t>(columns_ - 1)) << plain << '\n';
    ++drawn_;
  };
  line(table_.heading(recommendation), io_.color_err ? "\033[1m" : "");
  for (std::size_t i = 0; i < comparison_.runs.size(); ++i) {
    const bool now = running_ && i == current_;
    line(table_.row(comparison_.runs[i], recommendation.standings[i], recommendation, state_of(i)),
         now && io_.color_err ? "\033[36m" : "");
  }
  io_.err << std::flush;
}

RunOutput::int_type RunOutput::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char next = traits_type::to_char_type(c);
  if (next == '\n') {
    finish_line();
  } else if (next == '\r') {
    line_.clear();
  } else {
    line_.push_back(next);
    if (line_ == launch::kEraseLine.substr(1)) line_.clear();
  }
  return c;
}

int RunOutput::sync() {
  // Elsewhere than on a terminal what is flushed may be half a line.
  if (progress_.in_place() && line_.starts_with(progress_word_)) progress_.status(line_);
  return 0;
}

void RunOutput::finish_line() {
  const std::string text = std::exchange(line_, {});
  if (text.starts_with(progress_word_)) {
    progress_.status(text);
  } else if (!text.empty()) {
    progress_.message(text);
  }
}

}  // namespace thinwire::cli
