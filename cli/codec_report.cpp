#include "cli/codec_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace thinwire::cli {
namespace {

constexpr std::string_view kRow = "{:<34} {:>12} {:>8} {:>8} {:>10} {:>11} {:>8} {:>11} {:>8}";

std::string milliseconds(double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); }

double ratio(double measured, double bound) { return bound > 0 ? measured / bound : 0; }

}  // namespace

void CodecReport::add(const CodecResult& result) {
  if (json_) {
    print_json(result);
  } else {
    if (!started_) print_heading();
    started_ = true;
    print_row(result);
  }
  io_.out << std::flush;
}

void CodecReport::print_heading() {
  io_.out << bold(io_, fmt::format("{} floats, one core, {} repetitions; x: times the pass r += g "
                                   "over the same memory",
                                   plan_.numel, plan_.reps))
          << '\n'
          << fmt::format(fmt::runtime(kRow), "codec", "bytes", "B/coord.", "entropy", "above it",
                         "encode", "x", "decode", "x")
          << '\n';
}

void CodecReport::print_row(const CodecResult& result) {
  const double add = result.add_seconds.median;
  const double encode = result.encode_seconds.median, decode = result.decode_seconds.median;
  const double entropy = result.entropy_bytes_per_coordinate;
  io_.out << fmt::format(
                 fmt::runtime(kRow), result.codec, result.bytes,
                 fmt::format("{:.3f}", result.bytes_per_coordinate()),
                 fmt::format("{:.3f}", entropy),
                 fmt::format("{:.2f} %", 100 * (result.bytes_per_coordinate() / entropy - 1)),
                 milliseconds(encode), fmt::format("{:.2f}", ratio(encode, add)),
                 milliseconds(decode), fmt::format("{:.2f}", ratio(decode, add)))
          << (result.conserved ? "" : "  NOT CONSERVED") << '\n';
}

void CodecReport::print_json(const CodecResult& result) {
  const double add = result.add_seconds.median;
  const nlohmann::ordered_json line = {
      {"codec", result.codec},
      {"numel", plan_.numel},
      {"bytes", result.bytes},
      {"bytes_per_coordinate", result.bytes_per_coordinate()},
      {"entropy_bytes_per_coordinate", result.entropy_bytes_per_coordinate},
      {"encode_seconds_median", result.encode_seconds.median},
      {"decode_seconds_median", result.decode_seconds.median},
      {"encode_ratio_to_add", ratio(result.encode_seconds.median, add)},
      {"decode_ratio_to_add", ratio(result.decode_seconds.median, add)},
      {"reps", plan_.reps},
  };
  io_.out << line.dump() << '\n';
}

}  // namespace thinwire::cli
