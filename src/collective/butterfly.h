// Which ranks exchange in which round of a butterfly (recursive doubling) among any number of
// ranks, and the places of a binomial tree.
#pragma once

#include <bit>

#include "thinwire/transport.h"

namespace thinwire::collective {

inline constexpr int kNobody = -1;

// What becomes of the data that arrives.
enum class Arrival {
  store,   // it replaces this rank's
  lower,   // it is combined with this rank's, as the contribution of the lower ranks
  higher,  // ... as that of the higher ranks
};

struct Meeting {
  int to = kNobody;
  int from = kNobody;
  Arrival arrival = Arrival::store;
};

// Let Q be the largest power of two up to P and e = P - Q. Before the butterfly each odd rank below
// 2e gives its data to the even rank below it, and it gets the result from there afterwards. The Q
// ranks that remain keep their order, so what meets are always two neighbouring ranges of ranks.
class Butterfly {
 public:
  Butterfly(int rank, int size) noexcept
      : rank_(rank),
        most_(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))),
        extra_(size - most_) {}

  bool folds() const noexcept { return extra_ > 0; }
  // Whether this rank is one of the first 2e, which meet before and after.
  bool paired() const noexcept { return rank_ < 2 * extra_; }
  // Where this rank stands among the Q that do the rounds; a pair has one place.
  int place() const noexcept { return paired() ? rank_ / 2 : rank_ - extra_; }
  int rounds() const noexcept {
    return std::countr_zero(static_cast<unsigned>(most_)) + (folds() ? 2 : 0);
  }
  Meeting meeting(int round) const noexcept {
    const bool odd = rank_ % 2 != 0;
    if (folds() && round == 0) {
      if (!paired()) return {};
      return odd ? Meeting{rank_ - 1, kNobody, Arrival::store}
                 : Meeting{kNobody, rank_ + 1, Arrival::higher};
    }
    if (folds() && round == rounds() - 1) {
      if (!paired()) return {};
      return odd ? Meeting{kNobody, rank_ - 1, Arrival::store}
                 : Meeting{rank_ + 1, kNobody, Arrival::store};
    }
    if (paired() && odd) return {};
    const int other = place() ^ (1 << (folds() ? round - 1 : round));
    const int peer = other < extra_ ? 2 * other : other + extra_;
    return {peer, peer, peer < rank_ ? Arrival::lower : Arrival::higher};
  }

 private:
  int rank_;
  int most_;
  int extra_;
};

// A binomial tree over places 0 ... size-1 with its root at place 0.
struct TreePlace {
  TreePlace(int place, int size) noexcept
      : parent(place & (place - 1)),
        reach(place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(size)))
                         : place & -place) {}
  int parent;  // of the root: itself
  int reach;   // the children are place + 1, 2, 4, ... below place + reach, as far as they exist
};

}  // namespace thinwire::collective
