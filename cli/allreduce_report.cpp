#include "cli/allreduce_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace thinwire::cli {
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

}  // namespace

AllreduceReport::AllreduceReport(launch::Io& io, const measure::AllreduceBenchOptions& plan,
                                 std::string transport, bool json)
    : io_(io), plan_(plan), transport_(std::move(transport)), json_(json) {}

void AllreduceReport::add(const measure::AllreduceResult& result) {
  if (json_) {
    print_json(result);
  } else {
    if (!started_) print_heading(result.workers);
    started_ = true;
    print_row(result);
  }
  io_.out << std::flush;
}

void AllreduceReport::print_heading(int workers) {
  const bool simulated = transport_ == "sim";
  const std::string network =
      plan_.network ? fmt::format(", network {}", plan_.network->str()) : std::string();
  io_.out << launch::bold(
                 io_, fmt::format("{} all-reduce, {} {} over {}{}, {} of the slowest worker, {} "
                                  "repetitions",
                                  plan_.strategy, workers, workers == 1 ? "worker" : "workers",
                                  transport_, network,
                                  simulated ? "simulated (virtual) time" : "time", plan_.reps))
          << '\n';
  io_.out << fmt::format(fmt::runtime(kRow), "floats", "median", "min", "max", "bus bandwidth",
                         "bytes/worker");
  if (plan_.network) io_.out << fmt::format(fmt::runtime(kBound), "wire bound", "ratio");
  io_.out << '\n';
}

void AllreduceReport::print_row(const measure::AllreduceResult& result) {
  const double median = result.seconds.median;
  const std::string rate =
      median > 0 ? rate_text(8.0 * static_cast<double>(result.bytes_per_worker) / median) : "-";
  io_.out << fmt::format(fmt::runtime(kRow), result.numel, time_text(median),
                         time_text(result.seconds.min), time_text(result.seconds.max), rate,
                         result.bytes_per_worker);
  if (result.wire_bound_seconds) {
    const double bound = *result.wire_bound_seconds;
    io_.out << fmt::format(fmt::runtime(kBound), time_text(bound),
                           bound > 0 ? fmt::format("{:.2f}", median / bound) : "-");
  }
  io_.out << (result.replicas_identical ? "" : "  REPLICAS DIFFER") << '\n';
  if (result.seconds_codec > 0) print_codec(result);
}

// How far the strategy's own computing is from what memory allows, and its code from the entropy.
void AllreduceReport::print_codec(const measure::AllreduceResult& result) {
  std::string line = fmt::format("codec {}", time_text(result.seconds_codec));
  if (result.seconds_add > 0) {
    line += fmt::format(", {:.2f} x r += g ({})", result.seconds_codec / result.seconds_add,
                        time_text(result.seconds_add));
  }
  for (const Metric& metric : result.metrics) {
    if (metric.group.empty()) line += fmt::format("; {} {:.4g}", metric.name, metric.value());
  }
  io_.out << fmt::format("{:>12} {}\n", "", line);
}

void AllreduceReport::print_json(const measure::AllreduceResult& result) {
  nlohmann::ordered_json line = {
      {"strategy", plan_.strategy},
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
  io_.out << line.dump() << '\n';
}

}  // namespace thinwire::cli
