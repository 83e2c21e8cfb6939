// One direction of a worker's link, as arithmetic on points in time: no clock, no waiting, no lock.
#pragma once

#include <algorithm>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::transport {

// Carries one transfer at a time at full rate. Transfers may be announced in any order: each takes
// the link time that is still free from its start on, in several pieces if others already have some
// of it, as packets of concurrent flows share a wire. So n transfers that start together are all
// through after the time of n, whoever is asked about first.
class Link {
 public:
  Link() { busy_.reserve(kRemembered + 1); }

  // When a transfer that may start at `start` and takes `duration` of link time is through.
  Seconds carry(Seconds start, Seconds duration) {
    Seconds end = start, left = duration;
    for (const Span& span : busy_) {
      if (span.end <= end) continue;
      if (span.begin > end) {
        const Seconds gap = span.begin - end;
        if (gap >= left) break;
        left -= gap;
      }
      end = span.end;
    }
    end += left;
    if (duration > Seconds(0)) occupy(start, end);
    return end;
  }

 private:
  struct Span {
    Seconds begin, end;
  };
  // Traffic without pauses is one span. What is forgotten counts as free, and lies so far back that
  // nobody waits for it any more.
  static constexpr std::size_t kRemembered = 256;

  // No time between the two is free any more.
  void occupy(Seconds begin, Seconds end) {
    const auto first = std::find_if(busy_.begin(), busy_.end(),
                                    [&](const Span& span) { return span.end >= begin; });
    const auto last =
        std::find_if(first, busy_.end(), [&](const Span& span) { return span.begin > end; });
    if (first != last) {
      begin = std::min(begin, first->begin);
      end = std::max(end, std::prev(last)->end);
    }
    busy_.insert(busy_.erase(first, last), {begin, end});
    if (busy_.size() > kRemembered) busy_.erase(busy_.begin());
  }

  std::vector<Span> busy_;  // disjoint, in order
};

}  // namespace thinwire::transport
