#include "base/readable.h"

#include <fmt/format.h>

#include <cmath>

namespace thinwire::base {

std::string readable_bytes(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string readable_time(Seconds time) {
  const double seconds = time.count();
  if (seconds < 0.01) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long>(seconds);
  if (seconds < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string readable_factor(double factor) {
  const int digits = factor < 2 ? 2 : factor < 10 ? 1 : 0;
  const double unit = std::pow(10, -digits);
  // A factor that only its binary rounding puts below a multiple of `unit` counts as that multiple.
  constexpr double kRounding = 1e-9;
  return fmt::format("{:.{}f}x", std::floor(factor / unit + kRounding) * unit, digits);
}

std::string gibibytes(std::uint64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (std::uint64_t{1} << 30));
}

}  // namespace thinwire::base
