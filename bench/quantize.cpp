// The cost of rounding to a lattice on one core, in turns with r += g on the same memory: the
// norms, codes with random thresholds, packing; the sum of packed codes; and back to floats.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/measure/laplace.h"
#include "bench/measure/seconds_of.h"
#include "kernel/bitpack.h"
#include "kernel/quantize.h"
#include "thinwire/stats.h"

namespace {

using namespace thinwire;
using kernel::kTile;

constexpr std::size_t kBucket = 4096;
constexpr std::size_t kPieceTiles = 3200;  // half a megabyte of codes
constexpr std::uint32_t kWorkers = 4;

struct Options {
  std::size_t numel = 25'000'000;
  unsigned bits = 4;
  int reps = 11;
};

class Vector {
 public:
  explicit Vector(const Options& options)
      : options_(options),
        values_(options.numel),
        residual_(options.numel),
        norms_((options.numel + kBucket - 1) / kBucket),
        packed_(tiles() * kernel::packed_words(width())),
        sums_(kPieceTiles * kernel::kTile),
        wide_(tiles() * kernel::packed_words(sum_bits())) {
    thinwire::measure::fill_laplace(values_, 1, 0);
  }

  void add() {
    for (std::size_t i = 0; i < values_.size(); ++i) residual_[i] += values_[i];
  }
  void find_norms() {
    for (std::size_t j = 0; j < norms_.size(); ++j) {
      const std::size_t size = std::min(kBucket, values_.size() - j * kBucket);
      norms_[j] = kernel::highest_magnitude(Floats(values_).subspan(j * kBucket, size));
    }
  }
  void encode(bool nearest) {
    std::array<std::uint32_t, kernel::kTile> codes;
    std::uint32_t* out = packed_.data();
    for (std::size_t begin = 0; begin < values_.size(); begin += kernel::kTile) {
      kernel::quantize(tile(begin), begin / kernel::kTile, lattice(begin), nullptr,
                       {1, 2, 3, nearest}, codes.data());
      kernel::pack(codes.data(), width(), out);
      out += kernel::packed_words(width());
    }
  }
  // Piece by piece, as an owner does.
  void add_packed() {
    const std::uint32_t* in = packed_.data();
    for (std::size_t tile = 0; tile < tiles(); ++tile) {
      kernel::unpack_add(in, width(), sums_.data() + tile % kPieceTiles * kernel::kTile);
      in += kernel::packed_words(width());
    }
  }
  void decode() {
    std::array<std::uint32_t, kernel::kTile> codes;
    const std::uint32_t* in = wide_.data();
    for (std::size_t begin = 0; begin < values_.size(); begin += kernel::kTile) {
      kernel::unpack(in, sum_bits(), codes.data());
      kernel::dequantize(codes.data(), kWorkers * levels(), {1 / lattice(begin).inverse[0]}, 1,
                         nullptr, tile(begin));
      in += kernel::packed_words(sum_bits());
    }
  }

 private:
  std::size_t tiles() const { return (options_.numel + kernel::kTile - 1) / kernel::kTile; }
  unsigned width() const { return options_.bits + 1; }
  unsigned sum_bits() const {
    return static_cast<unsigned>(std::bit_width(2 * kWorkers * levels()));
  }
  std::uint32_t levels() const { return (1u << options_.bits) - 1; }
  MutFloats tile(std::size_t begin) {
    return MutFloats(values_).subspan(begin, std::min(kernel::kTile, values_.size() - begin));
  }
  kernel::Lattice lattice(std::size_t begin) const {
    kernel::Lattice out;
    out.levels = levels();
    out.inverse[0] = static_cast<float>(levels()) / std::bit_cast<float>(norms_[begin / kBucket]);
    return out;
  }

  Options options_;
  std::vector<float> values_, residual_;
  std::vector<std::uint32_t> norms_, packed_, sums_, wide_;
};

void measure_codes(const Options& options) {
  Vector vector(options);
  const struct {
    const char* name;
    std::function<void()> work;
  } kinds[] = {
      {"norms", [&] { vector.find_norms(); }},
      {"encode", [&] { vector.find_norms(), vector.encode(false); }},
      {"encode_nearest", [&] { vector.find_norms(), vector.encode(true); }},
      {"add", [&] { vector.add_packed(); }},
      {"decode", [&] { vector.decode(); }},
  };
  for (const auto& kind : kinds) {
    std::vector<double> adds, times;
    for (int rep = 0; rep < options.reps + 2; ++rep) {
      const double add = measure::seconds_of([&] { vector.add(); });
      const double time = measure::seconds_of(kind.work);
      if (rep < 2) continue;
      adds.push_back(add);
      times.push_back(time);
    }
    const Summary seconds = summarize(times);
    const double add = summarize(adds).median;
    const nlohmann::ordered_json line = {
        {"kernel", kind.name},        {"bits", options.bits},
        {"numel", options.numel},     {"seconds_median", seconds.median},
        {"seconds_min", seconds.min}, {"seconds_max", seconds.max},
        {"add_seconds_median", add},  {"ratio_to_add", seconds.median / add},
        {"reps", options.reps}};
    fmt::print("{}\n", line.dump());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Rounding to a lattice, on one core.");
  app.add_option("--numel", options.numel, "floats")->check(CLI::Range(1, 2'000'000'000));
  app.add_option("--bits", options.bits, "magnitude bits of a code")->check(CLI::Range(1, 12));
  app.add_option("--reps", options.reps, "repetitions that count")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  measure_codes(options);
}
