#include "strategy/gossip/gossip_peers.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace thinwire::strategy {
namespace {

std::uint64_t draw(std::uint64_t seed, std::uint64_t turn, std::uint64_t element,
                   std::uint64_t below) {
  return std::uint64_t{base::philox(seed, turn, element, base::Purpose::peers)[0]} * below >> 32;
}

int any_other(std::uint64_t seed, std::uint64_t turn, int rank, int size) {
  const auto skip =
      1 + draw(seed, turn, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(size) - 1);
  return static_cast<int>((static_cast<std::uint64_t>(rank) + skip) %
                          static_cast<std::uint64_t>(size));
}

// Returns the neighbour in an order that the seed and the turn shuffle. The last rank of an odd
// number has none and gets a random peer.
int random_partner(std::uint64_t seed, std::uint64_t turn, int rank, int size) {
  std::vector<int> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  // Elements start at 2^32, so that no number is drawn twice: any_other() uses the ranks.
  constexpr std::uint64_t kShuffle = std::uint64_t{1} << 32;
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[draw(seed, turn, kShuffle + i, i)]);
  }
  const auto place =
      static_cast<std::size_t>(std::find(order.begin(), order.end(), rank) - order.begin());
  const std::size_t other = place ^ 1;
  return other < order.size() ? order[other] : any_other(seed, turn, rank, size);
}

}  // namespace

int gossip_peer(PeerRule rule, bool mutual, std::uint64_t seed, std::uint64_t turn, int rank,
                int size) {
  if (rule == PeerRule::random) {
    return mutual ? random_partner(seed, turn, rank, size) : any_other(seed, turn, rank, size);
  }
  if (rule == PeerRule::ring) {
    const bool down = mutual && (static_cast<std::uint64_t>(rank) + turn) % 2 == 1;
    return (rank + (down ? size - 1 : 1)) % size;
  }
  const auto distances = static_cast<unsigned>(std::bit_width(static_cast<unsigned>(size - 1)));
  const int distance = 1 << turn % distances;
  if (mutual && (rank ^ distance) < size) return rank ^ distance;
  return (rank + distance) % size;
}

}  // namespace thinwire::strategy
