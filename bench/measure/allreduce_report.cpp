#include "bench/measure/allreduce_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace thinwire::measure {
namespace {

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

std::string rate_text(double bits_per_second) {
  if (bits_per_second < 1e6) return fmt::format("{:.1f} kbit/s", bits_per_second / 1e3);
  if (bits_per_second < 1e9) return fmt::format("{:.1f} Mbit/s", bits_per_second / 1e6);
  return fmt::format("{:.2f} Gbit/s", bits_per_second / 1e9);
}

constexpr std::string_view kRow = "{:>12} {:>11} {:>11} {:>11} {:>14} {:>14}";
constexpr std::string_view kBound = " {:>11} {:>6}";

// Says how far the strategy's own computing is from the speed of memory, and its code from the
// entropy.
std::string codec_text(const AllreduceResult& result) {
  std::string line = fmt::format("codec {}", time_text(result.seconds_codec));
  if (result.seconds_add > 0) {
    line += fmt::format(", {:.2f} x r += g ({})", result.seconds_codec / result.seconds_add,
                        time_text(result.seconds_add));
  }
  for (const Metric& metric : result.metrics) {
    if (metric.group.empty()) line += fmt::format("; {} {:.4g}", metric.name, metric.value());
  }
  return line;
}

}  // namespace

AllreduceReport::AllreduceReport(const AllreduceBenchOptions& options, std::string transport,
                                 int workers)
    : options_(options), transport_(std::move(transport)), workers_(workers) {}

std::string AllreduceReport::title() const {
  const bool simulated = transport_ == "sim";
  const std::string network =
      options_.network ? fmt::format(", network {}", options_.network->str()) : std::string();
  return fmt::format("{} all-reduce, {} {} over {}{}, {} of the slowest worker, {} repetitions",
                     options_.strategy, workers_, workers_ == 1 ? "worker" : "workers", transport_,
                     network, simulated ? "simulated (virtual) time" : "time", options_.reps);
}

std::string AllreduceReport::columns() const {
  std::string line = fmt::format(fmt::runtime(kRow), "floats", "median", "min", "max",
                                 "bus bandwidth", "bytes/worker");
  if (options_.network) line += fmt::format(fmt::runtime(kBound), "wire bound", "ratio");
  return line;
}

std::string AllreduceReport::row(const AllreduceResult& result) const {
  const double median = result.seconds.median;
  const std::string rate =
      median > 0 ? rate_text(8.0 * static_cast<double>(result.bytes_per_worker) / median) : "-";
  std::string text = fmt::format(fmt::runtime(kRow), result.numel, time_text(median),
                                 time_text(result.seconds.min), time_text(result.seconds.max), rate,
                                 result.bytes_per_worker);
  if (result.wire_bound_seconds) {
    const double bound = *result.wire_bound_seconds;
    text += fmt::format(fmt::runtime(kBound), time_text(bound),
                        bound > 0 ? fmt::format("{:.2f}", median / bound) : "-");
  }
  if (!result.replicas_identical) text += "  REPLICAS DIFFER";
  if (result.seconds_codec > 0) text += fmt::format("\n{:>12} {}", "", codec_text(result));
  return text;
}

std::string AllreduceReport::json(const AllreduceResult& result) const {
  nlohmann::ordered_json line = {
      {"strategy", options_.strategy},
      {"numel", result.numel},
      {"workers", result.workers},
      {"transport", transport_},
      {"seconds_median", result.seconds.median},
      {"seconds_min", result.seconds.min},
      {"seconds_max", result.seconds.max},
      {"seconds_codec", result.seconds_codec},
      {"bytes_per_worker", result.bytes_per_worker},
      {"wire_bound_seconds", nullptr},
      {"replicas_identical", result.replicas_identical},
      {"reps", result.reps},
  };
  if (result.seconds_codec > 0) line["detail"]["add_seconds_median"] = result.seconds_add;
  for (const Metric& metric : result.metrics) {
    if (metric.group.empty()) line["detail"][metric.name] = metric.value();
  }
  if (result.wire_bound_seconds) line["wire_bound_seconds"] = *result.wire_bound_seconds;
  return line.dump();
}

}  // namespace thinwire::measure
