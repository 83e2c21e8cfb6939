// The exchange of a quantized all-reduce for many values: in two hops (two_hop.h), with codes
// packed in code_bits on the first and their sums in sum_bits on the second.
#pragma once

#include <vector>

#include "collective/tile_rounding.h"
#include "collective/two_hop.h"

namespace thinwire::collective {

// The data of one exchange. `sums` is scratch memory that the caller keeps; all arguments must
// outlive this.
class QuantizedTwoHop final : public TwoHop {
 public:
  QuantizedTwoHop(const Transport& wire, PhaseTiming& timing, const TileRounding& rounding,
                  const CodeWidths& widths, std::vector<std::uint32_t>& sums);

  // Returns into how many pieces each share is cut; all ranks get the same number.
  std::size_t pieces() const noexcept { return pieces_; }

  std::size_t narrow_bytes(int owner, std::size_t piece) const override;
  std::size_t wide_bytes(int owner, std::size_t piece) const override;
  void give(int owner, std::size_t piece, MutBytes narrow) override;
  void begin_sum(std::size_t piece) override;
  void add(std::size_t piece, Bytes narrow) override;
  void end_sum(std::size_t piece, MutBytes wide) override;
  void take(int owner, std::size_t piece, Bytes wide) override;

 private:
  Share tiles_of(int owner, std::size_t piece) const;

  PhaseTiming& timing_;
  const TileRounding& rounding_;
  CodeWidths widths_;
  std::vector<std::uint32_t>& sums_;  // of a piece of this rank
  int rank_;
  std::size_t pieces_;
};

}  // namespace thinwire::collective
