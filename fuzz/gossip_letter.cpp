#include "fuzz/target.h"
#include "strategy/gossip_exchange.h"
#include "strategy/letter.h"

namespace thinwire::fuzz {

void gossip_letter(Bytes input) {
  constexpr std::size_t kNumel = 4;
  constexpr unsigned kInPairs = 0;
  Choices choices(input);
  constexpr unsigned kForms[] = {32, kInPairs, 8, 4};
  const unsigned bits = kForms[choices.below(std::size(kForms))];
  const auto exchange = bits == kInPairs ? make_pair_swap() : make_push_sum(bits);
  std::vector<float> params(kNumel, 1.0f);
  exchange->begin(params, 2);
  std::vector<Dispatch> letters;
  if (choices.below(2) == 1) exchange->start(1, params, letters);
  // Several letters, each after its length.
  while (!choices.rest().empty()) {
    Letter letter;
    letter.reserve(kNumel);
    const std::size_t received = choices.below(letter.room().size() + 1);
    for (std::byte& byte : letter.room()) byte = std::byte{choices.take<std::uint8_t>()};
    accept_or_refuse<WireError>([&] {
      const Letter::Contents contents = letter.read(received);
      demand(contents.model.empty() || contents.model.size() == kNumel);
      demand(contents.coded.size() <= received);
      if (contents.kind != Letter::Kind::last && contents.kind != Letter::Kind::wake) {
        exchange->arrived(1, contents, letter);
      }
    });
    exchange->attend(params, true, letters);
  }
}

}  // namespace thinwire::fuzz
