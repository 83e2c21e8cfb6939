#include <vector>

#include "codec/seal.h"
#include "fuzz/target.h"
#include "thinwire/codec.h"

namespace thinwire::fuzz {

void codec_message(Bytes input) {
  Choices choices(input);
  const Entry<Codec>& entry = codecs()[choices.below(codecs().size())];
  const auto codec = make_codec(entry.name);
  std::vector<float> into(choices.take<std::uint8_t>(), 1.0f);
  const std::vector<float> before = into;
  const std::uint64_t step = choices.take<std::uint8_t>();
  Payload message(choices.rest().begin(), choices.rest().end());
  const bool sealed = message.size() >= kSealedFrom;
  if (sealed) seal(message);

  bool accepted = false;
  accept_or_refuse<WireError>([&] {
    codec->decode_add(message, step, into);
    accepted = true;
  });
  demand(accepted || into == before);
  demand(!accepted || message.size() <= codec->max_bytes(into.size()));
}

}  // namespace thinwire::fuzz
