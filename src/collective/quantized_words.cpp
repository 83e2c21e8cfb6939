#include "collective/quantized_words.h"

#include "collective/cost.h"
#include "thinwire/collective.h"
#include "transport/payload_scale.h"

namespace thinwire::collective {
namespace {

std::size_t codes_per_word(const CodeWidths& widths) { return 64 / widths.sum_bits; }

std::size_t word_count(std::size_t elements, const CodeWidths& widths) {
  return (elements + codes_per_word(widths) - 1) / codes_per_word(widths);
}

// Calls visit(word, shift, codes[j]) for each element j of a tile. Element i of the vector is at
// bit i % n * sum_bits of word i / n, where n is the number of codes in a word.
template <class Visit>
void for_each_code(std::size_t tile, std::size_t elements, const CodeWidths& widths,
                   std::span<std::uint64_t> words, std::span<std::uint32_t> codes, Visit visit) {
  const std::size_t each = codes_per_word(widths);
  const std::size_t begin = tile * kernel::kTile;
  const std::size_t size = std::min(kernel::kTile, elements - begin);
  for (std::size_t j = 0; j < size; ++j) {
    const std::size_t i = begin + j;
    visit(words[i / each], i % each * widths.sum_bits, codes[j]);
  }
}

}  // namespace

// Two hops take the latency of two messages one after the other. In addition to its bytes, each of
// the P - 1 messages of a hop costs an eighth of a latency.
bool words_are_cheaper(const Transport& wire, std::size_t elements, const CodeWidths& widths) {
  const int ranks = wire.size();
  const auto others = static_cast<std::uint64_t>(ranks) - 1;
  const std::uint64_t bits = std::uint64_t{widths.code_bits} + widths.sum_bits;
  const std::uint64_t bytes =
      tile_count(elements) * kernel::kTile * bits / 8 * others / static_cast<std::uint64_t>(ranks);
  const std::uint64_t two_hops =
      2 * (kLatency + others * kLatency / 8) + transport::represented_bytes(wire, bytes);
  const std::size_t word_bytes = word_count(elements, widths) * sizeof(std::uint64_t);
  return doubling_time(transport::represented_bytes(wire, word_bytes), ranks) < two_hops;
}

void exchange_words(Transport& wire, PhaseTiming& timing, const TileRounding& rounding,
                    const CodeWidths& widths, std::vector<std::uint64_t>& words) {
  const std::size_t elements = rounding.elements();
  std::array<std::uint32_t, kernel::kTile> codes{};
  timing.compute([&] {
    words.assign(word_count(elements, widths), 0);
    for (std::size_t tile = 0; tile < rounding.tiles(); ++tile) {
      rounding.encode(tile, codes.data());
      for_each_code(tile, elements, widths, words, codes,
                    [](std::uint64_t& word, std::size_t shift, std::uint32_t code) {
                      word |= std::uint64_t{code} << shift;
                    });
    }
  });
  allreduce_sum(wire, std::span(words), Route::doubling);
  timing.compute([&] {
    const std::uint64_t mask = (std::uint64_t{1} << widths.sum_bits) - 1;
    for (std::size_t tile = 0; tile < rounding.tiles(); ++tile) {
      for_each_code(tile, elements, widths, words, codes,
                    [mask](std::uint64_t word, std::size_t shift, std::uint32_t& code) {
                      code = static_cast<std::uint32_t>(word >> shift & mask);
                    });
      rounding.decode(tile, codes.data());
    }
  });
}

}  // namespace thinwire::collective
