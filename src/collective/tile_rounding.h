// Rounds the values of one rank to codes of a shared lattice, tile by tile, and turns sums of codes
// into means.
#pragma once

#include "collective/shared_lattice.h"

namespace thinwire::collective {

enum class Rounding {
  dithered,  // right on average; the values are not changed
  nearest,   // the values become their rounding errors, for a later step
};

// The work of one exchange. The lattice must be agreed on; it and the vectors must outlive this.
class TileRounding {
 public:
  // `mean` is as long as `values`, and may be the same memory if the rounding is dithered. `seed`
  // and `step` must be the same on every rank.
  TileRounding(const SharedLattice& lattice, MutFloats values, MutFloats mean, Rounding rounding,
               std::uint64_t seed, std::uint64_t step, int rank, int ranks);

  std::size_t elements() const noexcept { return values_.size(); }
  std::size_t tiles() const noexcept { return tile_count(values_.size()); }
  int ranks() const noexcept { return ranks_; }

  // Rounds a tile to kernel::kTile codes. Must be called once for each tile.
  void encode(std::size_t tile, std::uint32_t* codes) const;
  // Writes the mean of a tile from the sums of the codes of all ranks. encode() must have been
  // called for the tile.
  void decode(std::size_t tile, const std::uint32_t* sums) const;

 private:
  const SharedLattice& lattice_;
  MutFloats values_, mean_;
  Rounding rounding_;
  int ranks_;
  kernel::Dither dither_;
};

}  // namespace thinwire::collective
