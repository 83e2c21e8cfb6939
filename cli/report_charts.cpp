#include "cli/report_charts.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/readable.h"

namespace thinwire::cli {
namespace {

constexpr StepPart kStepParts[] = {
    {"compute", "compute", [](const ComparedRun& run) { return run.compute; }},
    {"codec", "codec", [](const ComparedRun& run) { return run.codec; }},
    {"wire", "wire", [](const ComparedRun& run) { return run.wire; }},
    {"wait", "wait", [](const ComparedRun& run) { return run.wait; }},
    {"other", "other", [](const ComparedRun& run) { return run.other_seconds(); }},
};

std::string percent(double share) { return fmt::format("{:g} %", 100 * share); }
std::string seconds_text(double seconds) { return fmt::format("{:g} s", seconds); }

// Like readable_bytes, but round numbers stay short.
std::string bytes_tick(double bytes) {
  if (bytes < 1e3) return fmt::format("{:g} B", bytes);
  if (bytes < 1e6) return fmt::format("{:g} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:g} MB", bytes / 1e6);
  return fmt::format("{:g} GB", bytes / 1e9);
}

LineChart accuracy_over(double TestPoint::*quantity, const Comparison& comparison,
                        const Verdict& verdict) {
  std::vector<double> places, accuracies;
  std::vector<ChartLine> lines;
  for (const ComparedRun& run : comparison.runs) {
    if (run.tests.empty()) continue;
    ChartLine line{run.strategy, series_of(comparison, run), {}};
    for (const TestPoint& test : run.tests) {
      places.push_back(test.*quantity);
      accuracies.push_back(test.accuracy);
      line.points.push_back(
          {test.*quantity, test.accuracy,
           fmt::format("{}: {:.2f} % after {}, {} per worker, step {}", run.strategy,
                       100 * test.accuracy, readable_time(Seconds(test.seconds)),
                       readable_bytes(test.bytes), test.step)});
    }
    lines.push_back(std::move(line));
  }
  return {{},      "",      "test accuracy",  Axis::fitting(places), Axis::of_accuracy(accuracies),
          nullptr, percent, std::move(lines), verdict.target};
}

// A row with one bar in the colour of its run.
BarRow single_bar(const Comparison& comparison, const ComparedRun& run, double value,
                  const std::string& text, std::string_view meaning) {
  const std::string colour = series_class(series_of(comparison, run));
  return {
      run.strategy, {{colour, value, fmt::format("{}: {} {}", run.strategy, meaning, text)}}, text};
}

}  // namespace

std::span<const StepPart> step_parts() { return kStepParts; }

int series_of(const Comparison& comparison, const ComparedRun& run) {
  if (run.strategy == kBaseline) return 0;
  int series = 1;
  for (const ComparedRun& other : comparison.runs) {
    if (other.strategy == run.strategy) break;
    series += other.strategy != kBaseline;
  }
  return series;
}

LineChart accuracy_over_time(const Comparison& comparison, const Verdict& verdict) {
  LineChart chart = accuracy_over(&TestPoint::seconds, comparison, verdict);
  chart.text = {"time", "Accuracy against time",
                "How accurate each strategy's model was after how many seconds of training; the "
                "table has the figures."};
  chart.x_label = comparison.virtual_time ? "training time, simulated" : "training time";
  chart.x_text = seconds_text;
  return chart;
}

LineChart accuracy_over_bytes(const Comparison& comparison, const Verdict& verdict) {
  LineChart chart = accuracy_over(&TestPoint::bytes, comparison, verdict);
  chart.text = {"bytes", "Accuracy against bytes",
                "How accurate each strategy's model was after a worker had sent how many bytes; "
                "the table has the figures."};
  chart.x_label = "sent per worker";
  chart.x_text = bytes_tick;
  return chart;
}

LineChart residuals_over_steps(const Comparison& comparison) {
  std::vector<double> steps = {0}, ratios;
  std::vector<ChartLine> lines;
  for (const ComparedRun& run : comparison.runs) {
    ChartLine line{run.strategy, series_of(comparison, run), {}};
    for (const ResidualPoint& point : run.residuals) {
      if (!(point.ratio > 0)) continue;
      steps.push_back(static_cast<double>(point.step));
      ratios.push_back(point.ratio);
      line.points.push_back({static_cast<double>(point.step), point.ratio, {}});
    }
    if (!line.points.empty()) lines.push_back(std::move(line));
  }
  const ValueText plain = [](double value) { return fmt::format("{:g}", value); };
  return {{"residual", "Residual ratio", "How long each strategy's residual was, in gradients."},
          "step of rank 0",
          "residual / gradient",
          Axis::linear(0, std::ranges::max(steps)),
          Axis::fitting(ratios),
          plain,
          plain,
          std::move(lines),
          std::nullopt};
}

BarChart parts_of_a_step(const Comparison& comparison) {
  std::vector<double> ends = {0};
  std::vector<BarRow> rows;
  for (const ComparedRun& run : comparison.runs) {
    if (!run.finished()) continue;
    BarRow row{run.strategy, {}, readable_time(Seconds(run.per_step(run.seconds)))};
    double sum = 0;
    for (const StepPart& part : kStepParts) {
      const double seconds = run.per_step(part.seconds(run));
      sum += seconds;
      row.parts.push_back(
          {std::string(part.css_class), 1e3 * seconds,
           fmt::format("{}: {} {}", run.strategy, part.name, readable_time(Seconds(seconds)))});
    }
    ends.push_back(1e3 * sum);
    rows.push_back(std::move(row));
  }
  return {{"step", "Where a step's time goes",
           "Per strategy: computing, coding, transferring, waiting, and the rest."},
          "per step, mean over workers",
          Axis::linear(0, std::ranges::max(ends)),
          [](double value) { return fmt::format("{:g} ms", value); },
          std::move(rows)};
}

BarChart bytes_per_step(const Comparison& comparison) {
  std::vector<double> values;
  std::vector<BarRow> rows;
  for (const ComparedRun& run : comparison.runs) {
    if (!run.finished()) continue;
    const double bytes = run.bytes_per_worker_step;
    if (bytes > 0) values.push_back(bytes);
    rows.push_back(
        single_bar(comparison, run, bytes, readable_bytes(bytes), "per worker and step"));
  }
  return {{"sent", "Bytes per step", "What a worker sends per step, per strategy."},
          "per worker and step",
          Axis::fitting(values),
          bytes_tick,
          std::move(rows)};
}

BarChart consensus_distances(const Comparison& comparison) {
  std::vector<double> values;
  std::vector<BarRow> rows;
  for (const ComparedRun& run : comparison.runs) {
    if (!run.finished() || !run.drifted()) continue;
    const double distance = *run.consensus_distance;
    values.push_back(distance);
    rows.push_back(single_bar(comparison, run, distance, fmt::format("{:.2g}", distance),
                              "consensus distance"));
  }
  return {{"consensus", "Consensus distance",
           "How far the workers' models were from their mean before the end, in its length."},
          "distance / length of the mean model",
          Axis::fitting(values),
          [](double value) { return fmt::format("{:g}", value); },
          std::move(rows)};
}

}  // namespace thinwire::cli
