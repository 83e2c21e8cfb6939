#include "collective/quantization.h"

#include <fmt/format.h>

#include <bit>

#include "kernel/bitpack.h"
#include "thinwire/error.h"

namespace thinwire::collective {

CodeWidths code_widths(const Quantization& quantization, int ranks) {
  const std::uint64_t levels = quantization.levels(0);
  const std::uint64_t highest = 2 * levels * static_cast<std::uint64_t>(ranks);
  const CodeWidths out = {quantization.bits[0] + 1, static_cast<unsigned>(std::bit_width(highest))};
  if (out.sum_bits <= kernel::kWidestCode) return out;
  const unsigned most_levels =
      ((1u << kernel::kWidestCode) - 1) / (2 * static_cast<unsigned>(ranks));
  throw ConfigError(fmt::format(
      "quantization: the sum of {}-bit codes of {} workers takes too many bits ({}); more than {} "
      "are not exact in a float, so use at most {} bits or fewer workers",
      quantization.bits[0], ranks, out.sum_bits, kernel::kWidestCode,
      std::bit_width(most_levels + 1) - 1));
}

}  // namespace thinwire::collective
