#include <fmt/format.h>

#include <stdexcept>

#include "collective/cost.h"
#include "collective/pipeline.h"
#include "collective/tags.h"
#include "thinwire/collective.h"
#include "transport/payload_scale.h"

namespace thinwire {
namespace {

// Each rank, beginning with the root, forwards the data to the next higher rank, chunk by chunk.
class ChainSchedule final : public collective::Schedule {
 public:
  ChainSchedule(MutBytes data, const Transport& wire, int root) : data_(data) {
    const int rank = wire.rank(), size = wire.size();
    messages = collective::chain_chunks(transport::represented_bytes(wire, data.size()), size);
    depends = 0;
    overwrites = messages;
    if ((rank + 1) % size != root) peering_.to = (rank + 1) % size;
    if (rank != root) peering_.from = (rank + size - 1) % size;
  }

  collective::Hop hop(std::size_t message) const override {
    const Share part =
        share_of(data_.size(), static_cast<int>(message), static_cast<int>(messages));
    const MutBytes chunk = data_.subspan(part.begin, part.size());
    return {peering_, chunk, chunk};
  }

 private:
  MutBytes data_;
  collective::Peering peering_;
};

void binomial(Transport& wire, Tag tag, MutBytes data, int root) {
  const int size = wire.size();
  const int place = (wire.rank() + size - root) % size;
  const collective::TreePlace tree(place, size);
  if (place != 0) wire.wait(wire.post_recv((tree.parent + root) % size, tag, data));
  // The child with the most descendants comes first.
  for (int d = tree.reach / 2; d > 0; d /= 2) {
    if (place + d < size) wire.send((place + d + root) % size, tag, data);
  }
}

}  // namespace

void broadcast(Transport& wire, MutBytes data, int root) {
  const int size = wire.size();
  if (root < 0 || root >= size) {
    throw std::logic_error(
        fmt::format("broadcast: root {} is not a rank of this group (size {})", root, size));
  }
  if (size == 1 || data.empty()) return;
  const Tag tag = collective::tag_of(collective::Stream::broadcast);
  const std::size_t bytes = transport::represented_bytes(wire, data.size());
  if (collective::binomial_time(bytes, size) <= collective::chain_time(bytes, size)) {
    return binomial(wire, tag, data, root);
  }
  collective::run_pipeline(wire, tag, ChainSchedule(data, wire, root), collective::Reduction{});
}

}  // namespace thinwire
