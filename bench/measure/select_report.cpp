#include "bench/measure/select_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace thinwire::measure {
namespace {

constexpr std::string_view kRow = "{:<12} {:>10} {:>10} {:>10} {:>10} {:>9} {:>8} {:>12} {:>11}";
constexpr int kAddBytes = 12;  // r += g reads two floats and writes one

std::string milliseconds(double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); }

double ratio_to_add(const SelectResult& result) {
  return result.add_seconds.median > 0 ? result.seconds.median / result.add_seconds.median : 0;
}

}  // namespace

std::string SelectReport::title() const {
  return fmt::format(
      "exact selection of {} of {} floats (density {}), one core, {} steps; memory bound: its "
      "bytes at the speed of r += g",
      options_.k(), options_.numel, options_.density, options_.reps);
}

std::string SelectReport::columns() const {
  return fmt::format(fmt::runtime(kRow), "kernel", "median", "min", "max", "r += g", "ratio",
                     "B/float", "x mem. bound", "candidates");
}

std::string SelectReport::row(const SelectResult& result) const {
  const double bound = result.add_seconds.median * result.bytes_per_element / kAddBytes;
  const bool streams = result.kernel != SelectKernel::nth_element;  // its bytes are known
  return fmt::format(
             fmt::runtime(kRow), name_of(result.kernel), milliseconds(result.seconds.median),
             milliseconds(result.seconds.min), milliseconds(result.seconds.max),
             milliseconds(result.add_seconds.median), fmt::format("{:.2f}", ratio_to_add(result)),
             streams ? fmt::format("{}", result.bytes_per_element) : "-",
             streams && bound > 0 ? fmt::format("{:.2f}", result.seconds.median / bound) : "-",
             streams ? fmt::format("{:.2f} k", static_cast<double>(result.candidates) /
                                                   static_cast<double>(options_.k()))
                     : "-") +
         (result.exact ? "" : "  NOT EXACT");
}

std::string SelectReport::json(const SelectResult& result) const {
  const nlohmann::ordered_json line = {
      {"kernel", name_of(result.kernel)},
      {"numel", options_.numel},
      {"density", options_.density},
      {"k", options_.k()},
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
  return line.dump();
}

}  // namespace thinwire::measure
