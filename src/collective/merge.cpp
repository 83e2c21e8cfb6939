// The rounds of a pairwise merge of values of varying length.
#include <fmt/format.h>

#include <stdexcept>

#include "collective/butterfly.h"
#include "collective/tags.h"
#include "thinwire/collective.h"
#include "transport/name_sender.h"

namespace thinwire::collective {
namespace {

void encode(MergeSteps& steps, std::size_t max_bytes, Payload& message) {
  message.clear();
  message.reserve(max_bytes);
  steps.encode(message);
  if (message.size() <= max_bytes) return;
  throw std::logic_error(fmt::format("merge: a value is too long ({} bytes); max_bytes is {}",
                                     message.size(), max_bytes));
}

void take_in(MergeSteps& steps, Bytes message, Arrival arrival) {
  if (arrival == Arrival::store) {
    steps.replace(message);
  } else {
    steps.combine(message, arrival == Arrival::lower);
  }
}

// The value is encoded before anything is posted: if that throws, no operation is left that would
// write to the scratch memory of the lane.
void exchange(Transport& wire, const Peering& peering, Payload& message, std::size_t max_bytes,
              MergeSteps& steps) {
  const Tag tag = tag_of(Stream::merge);
  const bool receives = peering.from != kNoRank;
  const bool sends = peering.to != kNoRank;
  const MutBytes incoming = wire.scratch(max_bytes);
  if (sends) encode(steps, max_bytes, message);
  Pending arriving, leaving;
  Received received;
  if (receives) arriving = wire.post_recv(peering.from, tag, incoming, Fit::at_most);
  if (sends) leaving = wire.post_send(peering.to, tag, message);
  if (receives) received = wire.wait(arriving);
  if (sends) wire.wait(leaving);
  if (!receives) return;
  transport::name_sender(wire, peering.from,
                         [&] { take_in(steps, incoming.first(received.bytes), peering.arrival); });
}

}  // namespace

void merge_butterfly(Transport& wire, Payload& message, std::size_t max_bytes, MergeSteps& steps) {
  const Butterfly butterfly(wire.rank(), wire.size());
  for (int round = 0; round < butterfly.rounds(); ++round) {
    exchange(wire, butterfly.peering(round), message, max_bytes, steps);
  }
}

}  // namespace thinwire::collective
