#include "strategy/quantized/quantization_keys.h"

#include <fmt/format.h>

#include "base/number.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

constexpr unsigned kDefaultBits = 4;
constexpr unsigned kMostCodeBits = 12;
constexpr unsigned kMostBits = 16;  // of a finer scale

std::uint64_t whole_number(std::string_view key, std::string_view text) {
  const auto value = base::parse_number<std::uint64_t>(text);
  if (!value) throw ConfigError(fmt::format("{}: not a whole number ({})", key, text));
  return *value;
}

std::vector<unsigned> parse_scales(std::string_view text) {
  const std::string_view all = text;
  std::vector<unsigned> out;
  while (true) {
    const std::size_t plus = text.find('+');
    const std::uint64_t bits = whole_number("scales", text.substr(0, plus));
    const unsigned most = out.empty() ? kMostCodeBits : kMostBits;
    if (bits < 1 || bits > most || (!out.empty() && bits <= out.back())) {
      throw ConfigError(fmt::format(
          "scales: bits must increase, from 1 to {} (the first to {}), and {} does not ({}); use, "
          "for example, 4+8",
          kMostBits, kMostCodeBits, bits, all));
    }
    out.push_back(static_cast<unsigned>(bits));
    if (plus == std::string_view::npos) break;
    text.remove_prefix(plus + 1);
  }
  if (out.size() < 2 || out.size() > kernel::kMostScales) {
    throw ConfigError(
        fmt::format("scales: there must be 2 to {} of them ({}); use, for example, 4+8",
                    kernel::kMostScales, all));
  }
  return out;
}

}  // namespace

collective::Quantization read_quantization(base::Spec& spec, std::string_view default_bucket) {
  collective::Quantization out;
  const auto bits = static_cast<unsigned>(spec.integer("bits", kDefaultBits, 1, kMostCodeBits));
  out.bits = {bits};
  const std::string scales = spec.text("scales", "none", "none, or rising bits like 4+8");
  if (scales != "none") {
    out.bits = parse_scales(scales);
    if (bits != kDefaultBits && bits != out.bits[0]) {
      throw ConfigError(fmt::format("{}: bits={} contradicts scales={}; leave out bits",
                                    spec.name(), bits, scales));
    }
  }
  const std::string bucket =
      spec.text("bucket", default_bucket, "a multiple of 256 elements that share a norm, or whole");
  if (bucket == "whole") {
    out.bucket_tiles = 0;
    return out;
  }
  const std::uint64_t elements = whole_number("bucket", bucket);
  if (elements == 0 || elements % kernel::kTile != 0) {
    throw ConfigError(fmt::format("bucket: not a multiple of {} ({}); use one, or whole",
                                  kernel::kTile, elements));
  }
  out.bucket_tiles = static_cast<std::size_t>(elements / kernel::kTile);
  return out;
}

std::vector<Metric> quantized_metrics(const collective::QuantizedAllreduce& allreduce) {
  const collective::QuantizedAllreduce::Counts& counts = allreduce.counts();
  std::vector<Metric> out;
  if (allreduce.has_scales()) out.push_back({"fine_share", counts.fine, counts.elements});
  out.push_back(
      {"blocks_per_worker", counts.two_hop_tiles, static_cast<double>(allreduce.ranks())});
  return out;
}

}  // namespace thinwire::strategy
