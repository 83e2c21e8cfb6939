#include "message/sparse_message.h"

#include "fuzz/target.h"
#include "message/checksum.h"

namespace thinwire::fuzz {

// A message with a wrong checksum is refused at once. The target writes the right one, so that the
// other checks are tested.
void sparse_message(Bytes input) {
  Choices choices(input);
  const auto coding = static_cast<message::ValueCoding>(choices.below(3));
  const message::SparseAddress address{choices.take<std::uint32_t>(), choices.take<std::uint8_t>()};
  const std::size_t most = choices.take<std::uint16_t>();
  Payload message(choices.rest().begin(), choices.rest().end());
  if (message.size() >= message::kChecksummedFrom) message::write_checksum(message);

  Sparse out;
  bool accepted = false;
  accept_or_refuse<WireError>([&] {
    message::decode_sparse(message, coding, address, most, out);
    accepted = true;
  });
  if (!accepted) return;
  demand(out.indices.size() == out.values.size() && out.size() <= most);
  for (std::size_t i = 0; i < out.size(); ++i) {
    demand(out.indices[i] < address.numel);
    demand(i == 0 || out.indices[i - 1] < out.indices[i]);
  }
}

}  // namespace thinwire::fuzz
