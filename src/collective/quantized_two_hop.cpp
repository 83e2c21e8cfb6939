#include "collective/quantized_two_hop.h"

#include <algorithm>

#include "collective/cost.h"
#include "kernel/bitpack.h"
#include "transport/payload_scale.h"

namespace thinwire::collective {
namespace {

std::uint32_t* as_words(MutBytes bytes) { return reinterpret_cast<std::uint32_t*>(bytes.data()); }
const std::uint32_t* as_words(Bytes bytes) {
  return reinterpret_cast<const std::uint32_t*>(bytes.data());
}

}  // namespace

QuantizedTwoHop::QuantizedTwoHop(const Transport& wire, PhaseTiming& timing,
                                 const TileRounding& rounding, const CodeWidths& widths,
                                 std::vector<std::uint32_t>& sums)
    : timing_(timing), rounding_(rounding), widths_(widths), sums_(sums), rank_(wire.rank()) {
  const std::size_t most_tiles = share_of(rounding.tiles(), 0, rounding.ranks()).size();
  pieces_ = chunk_count(
      transport::represented_bytes(wire, most_tiles * kernel::packed_bytes(widths.code_bits)));
}

Share QuantizedTwoHop::tiles_of(int owner, std::size_t piece) const {
  const Share whole = share_of(rounding_.tiles(), owner, rounding_.ranks());
  const Share cut = share_of(whole.size(), static_cast<int>(piece), static_cast<int>(pieces_));
  return {whole.begin + cut.begin, whole.begin + cut.end};
}

std::size_t QuantizedTwoHop::narrow_bytes(int owner, std::size_t piece) const {
  return tiles_of(owner, piece).size() * kernel::packed_bytes(widths_.code_bits);
}

std::size_t QuantizedTwoHop::wide_bytes(int owner, std::size_t piece) const {
  return tiles_of(owner, piece).size() * kernel::packed_bytes(widths_.sum_bits);
}

void QuantizedTwoHop::give(int owner, std::size_t piece, MutBytes narrow) {
  timing_.compute([&] {
    std::array<std::uint32_t, kernel::kTile> codes;
    std::uint32_t* out = as_words(narrow);
    const Share range = tiles_of(owner, piece);
    for (std::size_t tile = range.begin; tile < range.end; ++tile) {
      rounding_.encode(tile, codes.data());
      kernel::pack(codes.data(), widths_.code_bits, out);
      out += kernel::packed_words(widths_.code_bits);
    }
  });
}

void QuantizedTwoHop::begin_sum(std::size_t piece) {
  timing_.compute([&] {
    const Share range = tiles_of(rank_, piece);
    sums_.resize(std::max(sums_.size(), range.size() * kernel::kTile));
    for (std::size_t tile = range.begin; tile < range.end; ++tile) {
      rounding_.encode(tile, sums_.data() + (tile - range.begin) * kernel::kTile);
    }
  });
}

void QuantizedTwoHop::add(std::size_t piece, Bytes narrow) {
  timing_.compute([&] {
    const std::uint32_t* in = as_words(narrow);
    const std::size_t count = tiles_of(rank_, piece).size();
    for (std::size_t tile = 0; tile < count; ++tile) {
      kernel::unpack_add(in, widths_.code_bits, sums_.data() + tile * kernel::kTile);
      in += kernel::packed_words(widths_.code_bits);
    }
  });
}

void QuantizedTwoHop::end_sum(std::size_t piece, MutBytes wide) {
  timing_.compute([&] {
    std::uint32_t* out = as_words(wide);
    const std::size_t count = tiles_of(rank_, piece).size();
    for (std::size_t tile = 0; tile < count; ++tile) {
      kernel::pack(sums_.data() + tile * kernel::kTile, widths_.sum_bits, out);
      out += kernel::packed_words(widths_.sum_bits);
    }
  });
}

void QuantizedTwoHop::take(int owner, std::size_t piece, Bytes wide) {
  timing_.compute([&] {
    std::array<std::uint32_t, kernel::kTile> sums;
    const std::uint32_t* in = as_words(wide);
    const Share range = tiles_of(owner, piece);
    for (std::size_t tile = range.begin; tile < range.end; ++tile) {
      kernel::unpack(in, widths_.sum_bits, sums.data());
      rounding_.decode(tile, sums.data());
      in += kernel::packed_words(widths_.sum_bits);
    }
  });
}

}  // namespace thinwire::collective
