// The exchange of a quantized all-reduce for few values: each rank packs its codes into words of 64
// bits, with room for the sums, and the words are added by recursive doubling.
#pragma once

#include <vector>

#include "collective/tile_rounding.h"

namespace thinwire::collective {

// Returns whether this exchange is expected to be faster than two hops (quantized_two_hop.h). All
// ranks get the same answer.
bool words_are_cheaper(const Transport& wire, std::size_t elements, const CodeWidths& widths);

// Called by all ranks together. `words` is scratch memory that the caller keeps.
void exchange_words(Transport& wire, PhaseTiming& timing, const TileRounding& rounding,
                    const CodeWidths& widths, std::vector<std::uint64_t>& words);

}  // namespace thinwire::collective
