// Values of varying length, merged pairwise.
#include <fmt/format.h>

#include <stdexcept>

#include "collective/butterfly.h"
#include "collective/tags.h"
#include "thinwire/collective.h"
#include "transport/name_sender.h"

namespace thinwire {
namespace {

// One rank's value and how it meets those of others. The scratch of the lane holds both operands of
// a merge, so that the result can be made in the memory of the value.
class Merging {
 public:
  Merging(Transport& wire, Tag tag, Payload& value, std::size_t max_bytes, const Merge& merge)
      : wire_(wire),
        tag_(tag),
        value_(value),
        max_bytes_(max_bytes),
        merge_(merge),
        own_(wire.scratch(2 * max_bytes).first(max_bytes)),
        other_(wire.scratch(2 * max_bytes).last(max_bytes)) {
    check_length("given");
    value_.reserve(max_bytes);
  }

  void meet(const collective::Meeting& meeting) {
    const bool receives = meeting.from != collective::kNobody;
    const bool sends = meeting.to != collective::kNobody;
    Pending arriving, leaving;
    Received received;
    if (receives) arriving = wire_.post_recv(meeting.from, tag_, other_, Fit::at_most);
    if (sends) leaving = wire_.post_send(meeting.to, tag_, value_);
    if (receives) received = wire_.wait(arriving);
    if (sends) wire_.wait(leaving);
    if (!receives) return;
    transport::name_sender(wire_, meeting.from,
                           [&] { take_in(other_.first(received.bytes), meeting.arrival); });
  }

 private:
  void take_in(Bytes other, collective::Arrival arrival) {
    if (arrival == collective::Arrival::store) {
      if (merge_.check) merge_.check(other);
      value_.assign(other.begin(), other.end());
      return;
    }
    const MutBytes own = own_.first(value_.size());
    std::copy(value_.begin(), value_.end(), own.begin());
    value_.clear();
    const bool first = arrival == collective::Arrival::lower;
    merge_.combine(first ? other : own, first ? own : other, value_);
    check_length("merged");
  }

  void check_length(std::string_view what) const {
    if (value_.size() <= max_bytes_) return;
    throw std::logic_error(fmt::format("the {} value has {} bytes, more than max_bytes {}", what,
                                       value_.size(), max_bytes_));
  }

  Transport& wire_;
  Tag tag_;
  Payload& value_;
  std::size_t max_bytes_;
  const Merge& merge_;
  MutBytes own_;
  MutBytes other_;
};

}  // namespace

void merge_butterfly(Transport& wire, Payload& value, std::size_t max_bytes, const Merge& merge) {
  Merging merging(wire, collective::tag_of(collective::Stream::merge), value, max_bytes, merge);
  const collective::Butterfly butterfly(wire.rank(), wire.size());
  for (int round = 0; round < butterfly.rounds(); ++round) {
    merging.meet(butterfly.meeting(round));
  }
}

}  // namespace thinwire
