// The blocks of a vector that are sent in a step, drawn alike by all ranks without a word or a
// table: a permutation that can be computed for one place at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace thinwire {

// A permutation of 0 ... size - 1, one for each key: a Feistel network on the next power of four,
// walked until it falls below `size` (Black and Rogaway 2002).
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::uint64_t key, std::uint64_t size) noexcept;
  std::uint64_t operator()(std::uint64_t place) const noexcept;

 private:
  std::uint64_t seed_, key_, size_;
  unsigned half_bits_;
};

// Of `blocks`, those of a step in which `count` >= 1 are sent, rising. As long as the count stays
// the same, every block comes once before any comes again, in another order each time.
void draw_blocks(std::uint64_t seed, std::uint64_t step, std::uint64_t blocks, std::uint64_t count,
                 std::vector<std::uint64_t>& out);

}  // namespace thinwire
