#include "report/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/readable.h"

namespace thinwire::report {
namespace {

constexpr std::string_view kRow = "{:<{}}  {:>8} {:>12} {:>12} {:>7} {:>9} {:>7} {:>10} {:>8}";

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

std::string optional_number(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

using Column = std::pair<std::string_view, std::string>;

std::vector<Column> columns(const ComparedRun& run, const RunComparison& compared,
                            const Recommendation& recommendation) {
  const auto number = [](double value) { return fmt::format("{}", value); };
  return {{"strategy", run.strategy},
          {"accuracy", number(run.accuracy)},
          {"accuracy_worst_worker", number(run.accuracy_worst_worker)},
          {"loss", optional_number(run.loss)},
          {"target_accuracy", optional_number(recommendation.target)},
          {"seconds_to_target", optional_number(compared.seconds_to_target)},
          {"bytes_to_target", optional_number(compared.bytes_to_target)},
          {"times_sooner_than_dense", optional_number(compared.sooner)},
          {"times_fewer_bytes_to_target", optional_number(compared.fewer_bytes_to_target)},
          {"times_fewer_bytes_than_dense", optional_number(compared.fewer_bytes)},
          {"steps", fmt::format("{}", run.steps)},
          {"samples", fmt::format("{}", run.samples)},
          {"seconds", number(run.seconds)},
          {"seconds_compute", number(run.compute)},
          {"seconds_codec", number(run.codec)},
          {"seconds_wire", number(run.wire)},
          {"seconds_wait", number(run.wait)},
          {"bytes_sent", number(run.bytes_sent)},
          {"bytes_per_worker_step", number(run.bytes_per_worker_step)},
          {"dense_bytes_per_worker_step", number(run.dense_bytes_per_worker_step)},
          {"replicas_identical", run.replicas_identical ? "true" : "false"},
          {"consensus_distance", optional_number(run.consensus_distance)},
          {"residual_ratio", optional_number(run.residual_ratio)},
          {"skipped_steps", fmt::format("{}", run.skipped_steps)}};
}

}  // namespace

std::string time_to_target(const ComparedRun& run, const RunComparison& compared,
                           const Recommendation& recommendation, std::string_view unknown) {
  if (compared.seconds_to_target) {
    const std::string time = base::readable_time(Seconds(*compared.seconds_to_target));
    return compared.at_first_test ? "<" + time : time;
  }
  return recommendation.target && !run.tests.empty() ? "never" : std::string(unknown);
}

CompareTable::CompareTable(const Comparison& comparison) : name_width_(8) {
  for (const ComparedRun& run : comparison.runs) {
    name_width_ = std::max(name_width_, run.strategy.size());
  }
}

std::string CompareTable::heading(const Recommendation& recommendation) const {
  const std::string target = recommendation.target
                                 ? fmt::format("to {:.0f} %", 100 * *recommendation.target)
                                 : "to target";
  return fmt::format(fmt::runtime(kRow), "strategy", name_width_, "accuracy", "time", target,
                     "sooner", "per step", "network", "sent/step", "fewer");
}

std::string CompareTable::row(const ComparedRun& run, const RunComparison& compared,
                              const Recommendation& recommendation, std::string_view status) const {
  if (!run.finished()) return fmt::format("{:<{}}  {}", run.strategy, name_width_, status);
  const auto time = [](double seconds) { return base::readable_time(Seconds(seconds)); };
  const auto factor = [](const std::optional<double>& value) {
    return value ? base::readable_factor(*value) : "-";
  };
  const double network = run.seconds > 0 ? 100 * run.wire / run.seconds : 0;
  return fmt::format(fmt::runtime(kRow), run.strategy, name_width_,
                     fmt::format("{:.1f} %", 100 * run.accuracy), time(run.seconds),
                     time_to_target(run, compared, recommendation, "-"), factor(compared.sooner),
                     time(run.per_step(run.seconds)), fmt::format("{:.0f} %", network),
                     base::readable_bytes(run.bytes_per_worker_step), factor(compared.fewer_bytes));
}

std::string comparison_csv(const Comparison& comparison, const Recommendation& recommendation) {
  std::string out;
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    if (!comparison.runs[i].finished()) continue;
    std::vector<std::string_view> names;
    std::vector<std::string> fields;
    for (const auto& [name, value] :
         columns(comparison.runs[i], recommendation.comparisons[i], recommendation)) {
      names.push_back(name);
      fields.push_back(csv_field(value));
    }
    if (out.empty()) out = fmt::format("{}\r\n", fmt::join(names, ","));
    out += fmt::format("{}\r\n", fmt::join(fields, ","));
  }
  return out;
}

}  // namespace thinwire::report
