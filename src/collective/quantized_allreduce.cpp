#include "collective/quantized_allreduce.h"

#include <algorithm>

#include "collective/quantized_two_hop.h"
#include "collective/quantized_words.h"
#include "transport/payload_scale.h"

namespace thinwire::collective {

void QuantizedAllreduce::begin(std::size_t most_elements, int ranks, std::size_t absent) {
  ranks_ = ranks;
  absent_ = absent;
  widths_ = code_widths(lattice_.quantization(), ranks);
  lattice_.reserve(most_elements);
}

void QuantizedAllreduce::exchange(Transport& wire, PhaseTiming& timing, const Vectors& vectors) {
  if (lattice_.is_zero()) {  // all ranks know this, so nothing is sent
    std::ranges::fill(vectors.mean, 0.0f);
    return;
  }
  const std::size_t elements = vectors.values.size();
  if (has_scales()) {
    lattice_.agree_on_scales(wire, timing, vectors.values);
    timing.compute([&] { count_fine(elements); });
  }
  const TileRounding rounding(lattice_, vectors.values, vectors.mean, vectors.rounding,
                              vectors.seed, vectors.step, wire.rank(), ranks_);
  if (words_are_cheaper(wire, elements, widths_)) {
    exchange_words(wire, timing, rounding, widths_, words_);
    return;
  }
  counts_.two_hop_tiles = static_cast<double>(transport::represented_bytes(wire, rounding.tiles()));
  QuantizedTwoHop data(wire, timing, rounding, widths_, sums_);
  two_hop_.run(wire, data.pieces(), data);
}

// Absent values are 0, and 0 can be represented in every scale.
void QuantizedAllreduce::count_fine(std::size_t elements) {
  counts_.fine += static_cast<double>(lattice_.count_fine(elements) - absent_);
  counts_.elements += static_cast<double>(elements - absent_);
}

}  // namespace thinwire::collective
