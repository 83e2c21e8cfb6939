#include "message/gossip_message.h"
#include "fuzz/target.h"
#include "strategy/gossip/gossip_exchange.h"

namespace thinwire::fuzz {

void gossip_message(Bytes input) {
  constexpr unsigned kInPairs = 0;
  Choices choices(input);
  constexpr unsigned kForms[] = {32, kInPairs, 8, 4};
  const unsigned bits = kForms[choices.below(std::size(kForms))];
  const auto exchange =
      bits == kInPairs ? strategy::make_pair_swap() : strategy::make_push_sum(bits);
  const bool starts = choices.below(2) == 1;
  // Up to three blocks of a coded message, the last one whole or not.
  const std::size_t numel = 1 + choices.below(600);
  std::vector<float> params(numel, 1.0f);
  exchange->begin(params, 2);
  std::vector<strategy::OutgoingMessage> messages;
  if (starts) exchange->start(1, params, messages);
  // Several messages, each after its length.
  while (!choices.rest().empty()) {
    message::GossipMessage message;
    message.reserve(numel);
    const std::size_t received = choices.below(message.room().size() + 1);
    for (std::byte& byte : message.room().first(received)) {
      byte = std::byte{choices.take<std::uint8_t>()};
    }
    accept_or_refuse<WireError>([&] {
      const message::GossipMessage::Contents contents = message.read(received);
      demand(contents.model.empty() || contents.model.size() == numel);
      demand(contents.coded.size() <= received);
      if (contents.kind != message::GossipMessage::Kind::last &&
          contents.kind != message::GossipMessage::Kind::wake) {
        exchange->arrived(1, contents, message);
      }
    });
    exchange->process_arrived(params, true, messages);
  }
}

}  // namespace thinwire::fuzz
