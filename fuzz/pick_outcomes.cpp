#include "strategy/sparse/pick_outcomes.h"

#include "fuzz/target.h"

namespace thinwire::fuzz {

// A message has one bit for each entry that was sent, and every bit pattern is valid: the bits
// alone say which entries were applied.
void pick_outcomes(Bytes input) {
  Choices choices(input);
  Sparse handed_on;
  std::uint32_t index = 0;
  for (std::size_t left = choices.below(100); left > 0; --left) {
    index += 1 + choices.take<std::uint8_t>();
    handed_on.push_back(index, 1);
  }
  Payload bits((handed_on.size() + 7) / 8);
  for (std::byte& each : bits) each = std::byte{choices.take<std::uint8_t>()};

  std::vector<std::uint32_t> survivors;
  strategy::unpack_survivors(handed_on.indices, bits, survivors);
  strategy::PickOutcomes outcomes;
  outcomes.clear(handed_on.size());
  outcomes.watch(handed_on);
  outcomes.keep_only(survivors);
  Payload again;
  strategy::pack_alive(outcomes[0], again);
  if (handed_on.size() % 8 != 0) {  // the unused bits of the last byte are ignored
    bits.back() &= static_cast<std::byte>((1 << handed_on.size() % 8) - 1);
  }
  demand(again == bits);
}

}  // namespace thinwire::fuzz
