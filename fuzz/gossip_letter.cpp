#include "fuzz/target.h"
#include "strategy/gossip_exchange.h"
#include "strategy/letter.h"

namespace thinwire::fuzz {

void gossip_letter(Bytes input) {
  constexpr unsigned kInPairs = 0;
  Choices choices(input);
  constexpr unsigned kForms[] = {32, kInPairs, 8, 4};
  const unsigned bits = kForms[choices.below(std::size(kForms))];
  const auto exchange = bits == kInPairs ? make_pair_swap() : make_push_sum(bits);
  const bool starts = choices.below(2) == 1;
  // Up to three blocks of a coded letter, the last one whole or not.
  const std::size_t numel = 1 + choices.below(600);
  std::vector<float> params(numel, 1.0f);
  exchange->begin(params, 2);
  std::vector<Dispatch> letters;
  if (starts) exchange->start(1, params, letters);
  // Several letters, each after its length.
  while (!choices.rest().empty()) {
    Letter letter;
    letter.reserve(numel);
    const std::size_t received = choices.below(letter.room().size() + 1);
    for (std::byte& byte : letter.room().first(received)) {
      byte = std::byte{choices.take<std::uint8_t>()};
    }
    accept_or_refuse<WireError>([&] {
      const Letter::Contents contents = letter.read(received);
      demand(contents.model.empty() || contents.model.size() == numel);
      demand(contents.coded.size() <= received);
      if (contents.kind != Letter::Kind::last && contents.kind != Letter::Kind::wake) {
        exchange->arrived(1, contents, letter);
      }
    });
    exchange->attend(params, true, letters);
  }
}

}  // namespace thinwire::fuzz
