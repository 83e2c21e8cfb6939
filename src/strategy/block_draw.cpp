#include "strategy/block_draw.h"

#include <algorithm>
#include <bit>

#include "thinwire/random.h"

namespace thinwire {
namespace {

constexpr std::uint64_t kRounds = 6;

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t key, std::uint64_t size) noexcept
    : seed_(seed),
      key_(key),
      size_(size),
      half_bits_((static_cast<unsigned>(std::bit_width(size > 0 ? size - 1 : 0)) + 1) / 2) {}

// Leaving the range and walking on until it is entered again makes a permutation of the part from
// one of the whole; the whole is at most four times as large.
std::uint64_t Permutation::operator()(std::uint64_t place) const noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = place >> half_bits_, right = place & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      // 48 bits count elements; a half has at most 32.
      const auto random = philox(seed_, key_, round << 32 | right, Purpose::blocks);
      left ^= random[0] & mask;
      std::swap(left, right);
    }
    place = left << half_bits_ | right;
  } while (place >= size_);
  return place;
}

void draw_blocks(std::uint64_t seed, std::uint64_t step, std::uint64_t blocks, std::uint64_t count,
                 std::vector<std::uint64_t>& out) {
  const std::uint64_t steps = (blocks + count - 1) / count;  // until all have come
  const Permutation order(seed, step / steps, blocks);
  const std::uint64_t first = step % steps * count;
  out.clear();
  for (std::uint64_t i = first; i < std::min(first + count, blocks); ++i) out.push_back(order(i));
  std::ranges::sort(out);
}

}  // namespace thinwire
