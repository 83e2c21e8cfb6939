// Models one direction of a worker's link by arithmetic on points in time, without a clock, waits
// or locks.
#pragma once

#include <algorithm>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::transport {

// Carries one transfer at a time at full rate. carry() may be called in any order of start times:
// each transfer gets the time that is still free from its start on, in several pieces if earlier
// calls have reserved some of it, as packets of concurrent flows share a wire. So n transfers that
// start together are complete after the time of n, in whatever order they are passed.
class Link {
 public:
  Link() { busy_.reserve(kRemembered + 1); }

  // Returns when a transfer is complete that may start at `start` and takes `duration` of link
  // time.
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
  // How many busy spans are kept; traffic without pauses is one span. Time before them counts as
  // free, but is so long ago that no transfer starts there.
  static constexpr std::size_t kRemembered = 256;

  // Marks the time between `begin` and `end` as busy.
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
