#include "cli/select_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace thinwire::cli {
namespace {

constexpr std::string_view kRow = "{:<12} {:>10} {:>10} {:>10} {:>10} {:>9} {:>8} {:>12} {:>11}";
constexpr int kAddBytes = 12;  // r += g reads two floats and writes one

std::string milliseconds(double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); }

double ratio_to_add(const measure::SelectResult& result) {
  return result.add_seconds.median > 0 ? result.seconds.median / result.add_seconds.median : 0;
}

}  // namespace

void SelectReport::add(const measure::SelectResult& result) {
  if (json_) {
    print_json(result);
  } else {
    if (!started_) print_heading();
    started_ = true;
    print_row(result);
  }
  io_.out << std::flush;
}

void SelectReport::print_heading() {
  io_.out << launch::bold(
                 io_, fmt::format("exact selection of {} of {} floats (density {}), one core, {} "
                                  "steps; memory bound: its bytes at the speed of r += g",
                                  plan_.k(), plan_.numel, plan_.density, plan_.reps))
          << '\n'
          << fmt::format(fmt::runtime(kRow), "kernel", "median", "min", "max", "r += g", "ratio",
                         "B/float", "x mem. bound", "candidates")
          << '\n';
}

void SelectReport::print_row(const measure::SelectResult& result) {
  const double bound = result.add_seconds.median * result.bytes_per_element / kAddBytes;
  const bool streams = result.kernel != measure::SelectKernel::nth_element;  // its bytes are known
  io_.out << fmt::format(
                 fmt::runtime(kRow), measure::name_of(result.kernel),
                 milliseconds(result.seconds.median), milliseconds(result.seconds.min),
                 milliseconds(result.seconds.max), milliseconds(result.add_seconds.median),
                 fmt::format("{:.2f}", ratio_to_add(result)),
                 streams ? fmt::format("{}", result.bytes_per_element) : "-",
                 streams && bound > 0 ? fmt::format("{:.2f}", result.seconds.median / bound) : "-",
                 streams ? fmt::format("{:.2f} k", static_cast<double>(result.candidates) /
                                                       static_cast<double>(plan_.k()))
                         : "-")
          << (result.exact ? "" : "  NOT EXACT") << '\n';
}

void SelectReport::print_json(const measure::SelectResult& result) {
  const nlohmann::ordered_json line = {
      {"kernel", measure::name_of(result.kernel)},
      {"numel", plan_.numel},
      {"density", plan_.density},
      {"k", plan_.k()},
      {"seconds_median", result.seconds.median},
      {"seconds_min", result.seconds.min},
      {"seconds_max", result.seconds.max},
      {"add_seconds_median", result.add_seconds.median},
      {"ratio_to_add", ratio_to_add(result)},
      {"bytes_per_element", result.bytes_per_element},
      {"candidates", result.candidates},
      {"rescans", result.rescans},
      {"exact", result.exact},
      {"reps", result.reps},
  };
  io_.out << line.dump() << '\n';
}

}  // namespace thinwire::cli
