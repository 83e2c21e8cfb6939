#include "report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace thinwire::report {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kResidualPoints = 120;  // more than a chart can show

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// JSON has no numbers that are not finite; they are written as null.
std::optional<double> finite(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>())
                                                     : std::nullopt;
}

double number(const Json& object, const char* key) { return finite(object, key).value_or(0); }

std::uint64_t count(const Json& object, const char* key) {
  return static_cast<std::uint64_t>(std::max(0.0, number(object, key)));
}

void read_summary(const Json& summary, ComparedRun& run) {
  run.workers = std::max(1, static_cast<int>(count(summary, "workers")));
  run.steps = count(summary, "steps");
  run.samples = count(summary, "samples");
  run.skipped_steps = count(summary, "skipped_steps");
  run.accuracy = number(summary, "accuracy");
  run.accuracy_worst_worker = number(summary, "accuracy_worst_worker");
  run.loss = finite(summary, "loss");
  run.seconds = number(summary, "seconds");
  run.compute = number(summary, "seconds_compute");
  run.codec = number(summary, "seconds_codec");
  run.wire = number(summary, "seconds_wire");
  run.wait = number(summary, "seconds_wait");
  run.bytes_sent = number(summary, "bytes_sent");
  run.bytes_per_worker_step = number(summary, "bytes_per_worker_step");
  run.dense_bytes_per_worker_step = number(summary, "dense_bytes_per_worker_step");
  run.residual_ratio = finite(summary, "residual_ratio");
  run.consensus_distance = finite(summary, "consensus_distance");
  run.diverged = summary.contains("loss") && summary["loss"].is_null();
  const auto identical = summary.find("replicas_identical");
  run.replicas_identical = identical != summary.end() && *identical == true;
}

void thin_out(std::vector<ResidualPoint>& points) {
  if (std::ranges::all_of(points, [](const ResidualPoint& p) { return p.ratio == 0; })) {
    points.clear();
  }
  if (points.size() <= kResidualPoints) return;
  std::vector<ResidualPoint> kept;
  for (std::size_t i = 0; i < kResidualPoints; ++i) {
    kept.push_back(points[i * (points.size() - 1) / (kResidualPoints - 1)]);
  }
  points = std::move(kept);
}

// The log has rank 0's bytes of each step; their course is taken for that of all workers, whose
// sum is in the summary.
void read_log(std::istream& log, ComparedRun& run) {
  double sent = 0;
  for (std::string text; std::getline(log, text);) {
    const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object()) continue;
    const std::uint64_t step = count(line, "step");
    if (line.contains("bytes")) {
      sent += number(line, "bytes");
      run.residuals.push_back({step, number(line, "residual_ratio")});
    } else if (line.contains("test_accuracy")) {
      run.tests.push_back({step, number(line, "time"), sent, number(line, "test_accuracy")});
    }
  }
  const double per_worker = run.bytes_sent / run.workers;
  for (TestPoint& test : run.tests) {
    test.bytes *= sent > 0 ? per_worker / sent : 0;
    // Asynchronous workers also send while rank 0 does not, so the bytes are at least those of an
    // even rate.
    if (!run.drifted() || !(run.seconds > 0)) continue;
    test.bytes = std::max(test.bytes, per_worker * std::min(1.0, test.seconds / run.seconds));
  }
  thin_out(run.residuals);
}

// The first warnings are enough; a run that diverges warns in every step.
void read_warnings(std::istream& in, ComparedRun& run) {
  constexpr std::size_t kKept = 2;
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);) {
    if (++count <= kKept) run.warnings.push_back(line);
  }
  if (count > kKept) run.warnings.push_back(fmt::format("{} more like these", count - kKept));
}

}  // namespace

double ComparedRun::other_seconds() const noexcept {
  return std::max(0.0, seconds - compute - codec - wire - wait);
}

double ComparedRun::per_step(double seconds_of_run) const noexcept {
  return seconds_of_run / static_cast<double>(std::max<std::uint64_t>(1, steps));
}

std::optional<ComparedRun> read_run(const fs::path& directory, const std::string& strategy) {
  const std::string text = contents(directory / "summary.json");
  const Json summary = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object() || !summary.contains("strategy") || summary["strategy"] != strategy) {
    return std::nullopt;
  }
  ComparedRun run;
  run.strategy = strategy;
  run.summary = text.substr(0, text.find_last_not_of('\n') + 1);
  read_summary(summary, run);
  if (!run.replicas_identical) return std::nullopt;
  std::ifstream log(directory / "run.jsonl");
  read_log(log, run);
  std::ifstream warnings(directory / kWarningsFile);
  read_warnings(warnings, run);
  return run;
}

}  // namespace thinwire::report
