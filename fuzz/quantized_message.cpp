#include <algorithm>
#include <cstring>

#include "fuzz/target.h"
#include "kernel/bitpack.h"
#include "kernel/quantize.h"
#include "kernel/quantize_reference.h"

namespace thinwire::fuzz {

// Codes have no header: every bit pattern is a valid tile. Decoding must stay within the buffers,
// packing the codes again must give the input, and sums must equal those of the reference.
void quantized_message(Bytes input) {
  using namespace kernel;
  Choices choices(input);
  const auto width = static_cast<unsigned>(1 + choices.below(kernel::kWidestCode));
  const std::size_t scales = 1 + choices.below(kernel::kMostScales);
  const auto zero = choices.take<std::uint32_t>();
  const std::size_t numel = choices.below(kernel::kTile + 1);
  std::array<float, kernel::kMostScales> steps{};
  for (float& step : steps) step = choices.take<float>();

  std::vector<std::uint32_t> words(packed_words(width));
  const Bytes rest = choices.rest().first(std::min(choices.rest().size(), packed_bytes(width)));
  if (!rest.empty()) std::memcpy(words.data(), rest.data(), rest.size());
  std::vector<std::uint32_t> codes(kernel::kTile), sums(kernel::kTile, 7), again(words.size());
  unpack(words.data(), width, codes.data());
  unpack_add(words.data(), width, sums.data());
  pack(codes.data(), width, again.data());
  demand(words == again);
  for (std::size_t i = 0; i < kernel::kTile; ++i) {
    demand(codes[i] < 1u << width && sums[i] == codes[i] + 7);
  }

  std::vector<std::uint64_t> fits((kernel::kMostScales - 1) * kernel::kFitWords);
  for (std::uint64_t& word : fits) word = choices.take<std::uint64_t>();
  std::vector<float> values(numel);
  dequantize(codes.data(), zero, steps, scales, fits.data(), values);
}

}  // namespace thinwire::fuzz
