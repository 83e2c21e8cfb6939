#include "strategy/quantized/quantization.h"
#include "base/number.h"
#include "base/spec.h"

#include <fmt/format.h>

#include <bit>

#include "kernel/bitpack.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

constexpr unsigned kUsualBits = 4;
constexpr unsigned kMostCodeBits = 12;
constexpr unsigned kMostBits = 16;  // of a finer scale

std::uint64_t whole_number(std::string_view key, std::string_view text) {
  const auto value = base::parse_number<std::uint64_t>(text);
  if (!value) throw ConfigError(fmt::format("{}: '{}' is not a whole number", key, text));
  return *value;
}

std::vector<unsigned> parse_scales(std::string_view text) {
  std::vector<unsigned> out;
  while (true) {
    const std::size_t plus = text.find('+');
    const std::uint64_t bits = whole_number("scales", text.substr(0, plus));
    const unsigned most = out.empty() ? kMostCodeBits : kMostBits;
    if (bits < 1 || bits > most || (!out.empty() && bits <= out.back())) {
      throw ConfigError(fmt::format(
          "scales: bits must rise, from 1 to {} (the first to {}), like 4+8: {} does not fit",
          kMostBits, kMostCodeBits, bits));
    }
    out.push_back(static_cast<unsigned>(bits));
    if (plus == std::string_view::npos) break;
    text.remove_prefix(plus + 1);
  }
  if (out.size() < 2 || out.size() > kernel::kMostScales) {
    throw ConfigError(fmt::format("scales: from 2 to {} of them, like 4+8", kernel::kMostScales));
  }
  return out;
}

}  // namespace

Quantization Quantization::read(base::Spec& spec, std::string_view usual_bucket) {
  Quantization out;
  const auto bits = static_cast<unsigned>(spec.integer("bits", kUsualBits, 1, kMostCodeBits));
  out.bits = {bits};
  const std::string scales = spec.text("scales", "none", "none, or rising bits like 4+8");
  if (scales != "none") {
    out.bits = parse_scales(scales);
    if (bits != kUsualBits && bits != out.bits[0]) {
      throw ConfigError(fmt::format("{}: scales={} begins with {} bits, and bits={} contradicts it",
                                    spec.name(), scales, out.bits[0], bits));
    }
  }
  const std::string bucket =
      spec.text("bucket", usual_bucket, "a multiple of 256 elements that share a norm, or whole");
  if (bucket == "whole") {
    out.bucket_tiles = 0;
    return out;
  }
  const std::uint64_t elements = whole_number("bucket", bucket);
  if (elements == 0 || elements % kernel::kTile != 0) {
    throw ConfigError(
        fmt::format("bucket: {} is not a multiple of {}; or say whole", elements, kernel::kTile));
  }
  out.bucket_tiles = static_cast<std::size_t>(elements / kernel::kTile);
  return out;
}

CodeWidths code_widths(const Quantization& quantization, int workers) {
  const std::uint64_t levels = quantization.levels(0);
  const std::uint64_t highest = 2 * levels * static_cast<std::uint64_t>(workers);
  const CodeWidths out = {quantization.bits[0] + 1, static_cast<unsigned>(std::bit_width(highest))};
  if (out.sum_bits <= kernel::kWidestCode) return out;
  throw ConfigError(fmt::format(
      "{} bits on {} workers: the sum of their codes takes {} bits, and more than {} are not exact "
      "in a float. Use fewer bits (at most {} here) or fewer workers.",
      quantization.bits[0], workers, out.sum_bits, kernel::kWidestCode,
      std::bit_width(((1u << kernel::kWidestCode) - 1) / (2 * static_cast<unsigned>(workers)) + 1) -
          1));
}

}  // namespace thinwire::strategy
