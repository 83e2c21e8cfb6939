#include "strategy/quantized/quantized_mean.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "collective/cost.h"
#include "kernel/bitpack.h"
#include "strategy/common/phase_time.h"

namespace thinwire::strategy {
namespace {

using kernel::kFitWords;
using kernel::kTile;

constexpr std::uint32_t kInfinity = 0x7f800000;

std::uint32_t* as_words(MutBytes bytes) { return reinterpret_cast<std::uint32_t*>(bytes.data()); }
const std::uint32_t* as_words(Bytes bytes) {
  return reinterpret_cast<const std::uint32_t*>(bytes.data());
}

}  // namespace

// --- Where things are.

std::size_t QuantizedMean::bucket_of(std::size_t tile) const noexcept {
  return quantization_.bucket_tiles == 0 ? 0 : tile / quantization_.bucket_tiles;
}

// A norm so small that its inverse is infinite makes the bucket 0, as a norm of 0 does.
kernel::Lattice QuantizedMean::lattice_of(std::size_t tile) const {
  const auto norm = std::bit_cast<float>(norms_[bucket_of(tile)]);
  kernel::Lattice out;
  out.levels = quantization_.levels(0);
  out.scales = quantization_.bits.size();
  for (std::size_t k = 0; k < out.scales; ++k) {
    out.inverse[k] = static_cast<float>(quantization_.levels(k)) / norm;
  }
  if (!std::isfinite(out.inverse[out.scales - 1])) out.inverse.fill(0);
  return out;
}

// The steps of the lattice, divided by the number of workers whose codes were added.
std::array<float, kernel::kMostScales> QuantizedMean::steps_of(std::size_t tile,
                                                               double workers) const {
  const auto norm = std::bit_cast<float>(norms_[bucket_of(tile)]);
  std::array<float, kernel::kMostScales> out{};
  if (lattice_of(tile).inverse[0] == 0) return out;
  for (std::size_t k = 0; k < quantization_.bits.size(); ++k) {
    const double codes = quantization_.levels(k) * workers;
    out[k] = static_cast<float>(static_cast<double>(norm) / codes);
    // Rounded up, the largest code of the largest norm would be infinite.
    if (!std::isfinite(out[k] * static_cast<float>(codes))) out[k] = std::nextafter(out[k], 0.0f);
  }
  return out;
}

std::size_t QuantizedMean::fits_at(std::size_t tile) const noexcept {
  return tile * (quantization_.bits.size() - 1) * kernel::kFitWords;
}

MutFloats QuantizedMean::part(MutFloats of, std::size_t tile) {
  const std::size_t begin = tile * kernel::kTile;
  return of.subspan(begin, std::min(kernel::kTile, of.size() - begin));
}

void QuantizedMean::begin(std::size_t most_elements, int workers, std::size_t absent) {
  workers_ = workers;
  absent_ = absent;
  lanes_ = code_widths(quantization_, workers);
  const std::size_t most_tiles = (most_elements + kernel::kTile - 1) / kernel::kTile;
  norms_.reserve(most_tiles + 1);
  fits_.reserve(fits_at(most_tiles));
}

// --- What all ranks must know before they round.

bool QuantizedMean::agree(const GradientStep& context, MutFloats values, std::uint32_t outside) {
  values_ = values;
  timed_codec(context, [&] {
    norms_.clear();
    const std::size_t whole = std::max<std::size_t>(values.size(), 1);
    const std::size_t bucket =
        quantization_.bucket_tiles == 0 ? whole : quantization_.bucket_tiles * kernel::kTile;
    for (std::size_t begin = 0; begin < values.size(); begin += bucket) {
      const std::size_t size = std::min(bucket, values.size() - begin);
      norms_.push_back(kernel::highest_magnitude(values.subspan(begin, size)));
    }
    norms_.push_back(outside);
  });
  allreduce_max(context.wire, std::span(norms_));
  return std::ranges::all_of(norms_, [](std::uint32_t norm) { return norm < kInfinity; });
}

// An element may be told in a finer scale if that is so on every rank. Decided on the values
// themselves: a decision that depended on how they were rounded would bias the result.
void QuantizedMean::agree_on_scales(const GradientStep& context) {
  timed_codec(context, [&] {
    fits_.resize(fits_at(tiles()));
    for (std::size_t tile = 0; tile < tiles(); ++tile) {
      kernel::find_fits(part(values_, tile), lattice_of(tile), fits_.data() + fits_at(tile));
    }
  });
  allreduce_and(context.wire, std::span(fits_));
  timed_codec(context, [&] {
    std::uint64_t fine = 0;
    for (std::size_t tile = 0; tile < tiles(); ++tile) {
      for (std::size_t word = 0; word < kernel::kFitWords; ++word) {
        fine += static_cast<std::uint64_t>(std::popcount(fits_[fits_at(tile) + word]));
      }
    }
    // All bits beyond the end are set, and those of zeros.
    fine_ += static_cast<double>(fine - (tiles() * kernel::kTile - values_.size()) - absent_);
    elements_ += static_cast<double>(values_.size() - absent_);
  });
}

// --- Rounding, and back.

void QuantizedMean::encode(std::size_t tile, std::uint32_t* codes) {
  const MutFloats values = part(values_, tile);
  const kernel::Lattice lattice = lattice_of(tile);
  kernel::quantize(values, tile, lattice, fits_.data() + fits_at(tile), dither_, codes);
  if (rounding_ != Rounding::nearest) return;
  std::array<float, kernel::kTile> sent{};
  const MutFloats told = MutFloats(sent).first(values.size());
  kernel::dequantize(codes, lattice.levels, steps_of(tile, 1), lattice.scales,
                     fits_.data() + fits_at(tile), told);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= told[i];
}

void QuantizedMean::decode(std::size_t tile, const std::uint32_t* sums) {
  const auto zero = static_cast<std::uint32_t>(workers_) * quantization_.levels(0);
  kernel::dequantize(sums, zero, steps_of(tile, workers_), quantization_.bits.size(),
                     fits_.data() + fits_at(tile), part(mean_, tile));
}

void QuantizedMean::exchange(const GradientStep& context, MutFloats values, MutFloats mean,
                             Rounding rounding) {
  context_ = &context;
  values_ = values;
  mean_ = mean;
  rounding_ = rounding;
  // A P-th of a turn apart: the roundings of the ranks cancel each other rather than add up.
  const auto turn = (static_cast<std::uint32_t>(context.wire.rank()) << 16) /
                    static_cast<std::uint32_t>(workers_);
  dither_ = {context.run.seed, context.step, static_cast<std::uint16_t>(turn),
             rounding == Rounding::nearest};
  const auto buckets = std::span(norms_).first(norms_.size() - 1);
  if (std::ranges::all_of(buckets, [](std::uint32_t norm) { return norm == 0; })) {
    return static_cast<void>(std::ranges::fill(mean, 0.0f));  // as all ranks know
  }
  if (many_scales()) agree_on_scales(context);
  if (words_are_cheaper()) return exchange_words(context);
  dealt_ = static_cast<double>(context.wire.represented_bytes(tiles()));
  two_hop_.run(context.wire, count_pieces(), *this);
}

std::vector<Metric> QuantizedMean::metrics() const {
  std::vector<Metric> out;
  if (many_scales()) out.push_back({"fine_share", fine_, elements_});
  out.push_back({"blocks_per_worker", dealt_, static_cast<double>(workers_)});
  return out;
}

// --- Few values: sums of whole words, in lanes wide enough for the sums.

// Two hops wait for two messages one after the other, and each of the P - 1 messages of a hop costs
// an eighth of that beside its bytes.
bool QuantizedMean::words_are_cheaper() const {
  const auto others = static_cast<std::uint64_t>(workers_) - 1;
  const std::uint64_t bits = std::uint64_t{lanes_.code_bits} + lanes_.sum_bits;
  const std::uint64_t bytes =
      tiles() * kernel::kTile * bits / 8 * others / static_cast<std::uint64_t>(workers_);
  const Transport& wire = context_->wire;
  const std::uint64_t two_hops = 2 * (collective::kLatency + others * collective::kLatency / 8) +
                                 wire.represented_bytes(bytes);
  const std::size_t lanes = 64 / lanes_.sum_bits;
  const std::size_t word_bytes = (values_.size() + lanes - 1) / lanes * 8;
  return collective::doubling_time(wire.represented_bytes(word_bytes), workers_) < two_hops;
}

void QuantizedMean::exchange_words(const GradientStep& context) {
  const std::size_t lanes = 64 / lanes_.sum_bits;
  const std::uint64_t mask = (std::uint64_t{1} << lanes_.sum_bits) - 1;
  std::array<std::uint32_t, kernel::kTile> codes{};
  // Element i is lane i % lanes of word i / lanes.
  const auto for_lanes = [&](std::size_t tile, auto visit) {
    for (std::size_t j = 0; j < part(values_, tile).size(); ++j) {
      const std::size_t i = tile * kernel::kTile + j;
      visit(words_[i / lanes], i % lanes * lanes_.sum_bits, codes[j]);
    }
  };
  timed_codec(context, [&] {
    words_.assign((values_.size() + lanes - 1) / lanes, 0);
    for (std::size_t tile = 0; tile < tiles(); ++tile) {
      encode(tile, codes.data());
      for_lanes(tile, [](std::uint64_t& word, std::size_t shift, std::uint32_t code) {
        word |= std::uint64_t{code} << shift;
      });
    }
  });
  allreduce_sum(context.wire, std::span(words_), Route::doubling);
  timed_codec(context, [&] {
    for (std::size_t tile = 0; tile < tiles(); ++tile) {
      for_lanes(tile, [&](std::uint64_t word, std::size_t shift, std::uint32_t& code) {
        code = static_cast<std::uint32_t>(word >> shift & mask);
      });
      decode(tile, codes.data());
    }
  });
}

// --- Many values: two hops.

std::size_t QuantizedMean::count_pieces() const {
  const std::size_t most_tiles = share_of(tiles(), 0, workers_).size();
  return collective::chunk_count(
      context_->wire.represented_bytes(most_tiles * kernel::packed_bytes(lanes_.code_bits)));
}

Share QuantizedMean::tiles_of(int owner, std::size_t piece) const {
  const Share whole = share_of(tiles(), owner, workers_);
  const Share cut =
      share_of(whole.size(), static_cast<int>(piece), static_cast<int>(count_pieces()));
  return {whole.begin + cut.begin, whole.begin + cut.end};
}

std::size_t QuantizedMean::narrow_bytes(int owner, std::size_t piece) const {
  return tiles_of(owner, piece).size() * kernel::packed_bytes(lanes_.code_bits);
}

std::size_t QuantizedMean::wide_bytes(int owner, std::size_t piece) const {
  return tiles_of(owner, piece).size() * kernel::packed_bytes(lanes_.sum_bits);
}

void QuantizedMean::give(int owner, std::size_t piece, MutBytes narrow) {
  timed_codec(*context_, [&] {
    std::array<std::uint32_t, kernel::kTile> codes;
    std::uint32_t* out = as_words(narrow);
    const Share range = tiles_of(owner, piece);
    for (std::size_t tile = range.begin; tile < range.end; ++tile) {
      encode(tile, codes.data());
      kernel::pack(codes.data(), lanes_.code_bits, out);
      out += kernel::packed_words(lanes_.code_bits);
    }
  });
}

void QuantizedMean::begin_sum(std::size_t piece) {
  timed_codec(*context_, [&] {
    const Share range = tiles_of(context_->wire.rank(), piece);
    sums_.resize(std::max(sums_.size(), range.size() * kernel::kTile));
    for (std::size_t tile = range.begin; tile < range.end; ++tile) {
      encode(tile, sums_.data() + (tile - range.begin) * kernel::kTile);
    }
  });
}

void QuantizedMean::add(std::size_t piece, Bytes narrow) {
  timed_codec(*context_, [&] {
    const std::uint32_t* in = as_words(narrow);
    const std::size_t count = tiles_of(context_->wire.rank(), piece).size();
    for (std::size_t tile = 0; tile < count; ++tile) {
      kernel::unpack_add(in, lanes_.code_bits, sums_.data() + tile * kernel::kTile);
      in += kernel::packed_words(lanes_.code_bits);
    }
  });
}

void QuantizedMean::end_sum(std::size_t piece, MutBytes wide) {
  timed_codec(*context_, [&] {
    std::uint32_t* out = as_words(wide);
    const std::size_t count = tiles_of(context_->wire.rank(), piece).size();
    for (std::size_t tile = 0; tile < count; ++tile) {
      kernel::pack(sums_.data() + tile * kernel::kTile, lanes_.sum_bits, out);
      out += kernel::packed_words(lanes_.sum_bits);
    }
  });
}

void QuantizedMean::take(int owner, std::size_t piece, Bytes wide) {
  timed_codec(*context_, [&] {
    std::array<std::uint32_t, kernel::kTile> sums;
    const std::uint32_t* in = as_words(wide);
    const Share range = tiles_of(owner, piece);
    for (std::size_t tile = range.begin; tile < range.end; ++tile) {
      kernel::unpack(in, lanes_.sum_bits, sums.data());
      decode(tile, sums.data());
      in += kernel::packed_words(lanes_.sum_bits);
    }
  });
}

}  // namespace thinwire::strategy
