// Which ranks exchange in which round of a butterfly (recursive doubling) among any number of
// ranks, and the places of a binomial tree.
#pragma once

#include <bit>

#include "thinwire/transport.h"

namespace thinwire::collective {

// What a rank does with the data that it receives.
enum class Arrival {
  store,   // it replaces its own data
  lower,   // it combines the data with its own, as the contribution of lower ranks
  higher,  // it combines the data with its own, as the contribution of higher ranks
};

// Which ranks a rank sends to and receives from in a round.
struct Peering {
  int to = kNoRank;
  int from = kNoRank;
  Arrival arrival = Arrival::store;
};

// Let Q be the largest power of two up to P and e = P - Q. Before the rounds of the butterfly each
// odd rank below 2e sends its data to the even rank below it; afterwards it receives the result
// from there. The Q ranks that remain keep their order, so each combination is one of two
// neighbouring ranges of ranks.
class Butterfly {
 public:
  Butterfly(int rank, int size) noexcept
      : rank_(rank),
        power_(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))),
        extra_(size - power_) {}

  bool folds() const noexcept { return extra_ > 0; }
  // Returns whether this rank is one of the first 2e, which exchange in pairs before and after.
  bool paired() const noexcept { return rank_ < 2 * extra_; }
  // Returns the place of this rank among the Q that do the rounds; a pair has one place.
  int place() const noexcept { return paired() ? rank_ / 2 : rank_ - extra_; }
  int rounds() const noexcept {
    return std::countr_zero(static_cast<unsigned>(power_)) + (folds() ? 2 : 0);
  }
  Peering peering(int round) const noexcept {
    const bool odd = rank_ % 2 != 0;
    if (folds() && round == 0) {
      if (!paired()) return {};
      return odd ? Peering{rank_ - 1, kNoRank, Arrival::store}
                 : Peering{kNoRank, rank_ + 1, Arrival::higher};
    }
    if (folds() && round == rounds() - 1) {
      if (!paired()) return {};
      return odd ? Peering{kNoRank, rank_ - 1, Arrival::store}
                 : Peering{rank_ + 1, kNoRank, Arrival::store};
    }
    if (paired() && odd) return {};
    const int other = place() ^ (1 << (folds() ? round - 1 : round));
    const int peer = other < extra_ ? 2 * other : other + extra_;
    return {peer, peer, peer < rank_ ? Arrival::lower : Arrival::higher};
  }

 private:
  int rank_;
  int power_;  // Q
  int extra_;  // e
};

// A binomial tree over places 0 ... size-1 with its root at place 0.
struct TreePlace {
  TreePlace(int place, int size) noexcept
      : parent(place & (place - 1)),
        reach(place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(size)))
                         : place & -place) {}
  int parent;  // the root is its own parent
  int reach;   // the children are place + 1, 2, 4, ... below place + reach, as far as they exist
};

}  // namespace thinwire::collective
