#include "collective/tile_rounding.h"

namespace thinwire::collective {

// The thresholds of two ranks are a multiple of 1/P apart, so that the rounding errors of the ranks
// cancel each other rather than add up.
TileRounding::TileRounding(const SharedLattice& lattice, MutFloats values, MutFloats mean,
                           Rounding rounding, std::uint64_t seed, std::uint64_t step, int rank,
                           int ranks)
    : lattice_(lattice), values_(values), mean_(mean), rounding_(rounding), ranks_(ranks) {
  const auto rotation =
      (static_cast<std::uint32_t>(rank) << 16) / static_cast<std::uint32_t>(ranks);
  dither_ = {seed, step, static_cast<std::uint16_t>(rotation), rounding == Rounding::nearest};
}

void TileRounding::encode(std::size_t tile, std::uint32_t* codes) const {
  const MutFloats values = tile_of(values_, tile);
  const kernel::Lattice lattice = lattice_.lattice(tile);
  kernel::quantize(values, tile, lattice, lattice_.fits(tile), dither_, codes);
  if (rounding_ != Rounding::nearest) return;
  std::array<float, kernel::kTile> rounded{};
  const MutFloats sent = MutFloats(rounded).first(values.size());
  kernel::dequantize(codes, lattice.levels, lattice_.steps(tile, 1), lattice.scales,
                     lattice_.fits(tile), sent);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= sent[i];
}

void TileRounding::decode(std::size_t tile, const std::uint32_t* sums) const {
  const Quantization& quantization = lattice_.quantization();
  const auto zero = static_cast<std::uint32_t>(ranks_) * quantization.levels(0);
  kernel::dequantize(sums, zero, lattice_.steps(tile, ranks_), quantization.bits.size(),
                     lattice_.fits(tile), tile_of(mean_, tile));
}

}  // namespace thinwire::collective
