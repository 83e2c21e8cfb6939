// All-gather by dissemination, and the barrier, which is an all-gather without data.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "collective/cost.h"
#include "collective/tags.h"
#include "thinwire/collective.h"

namespace thinwire {
namespace {

// The positions of the pieces of all ranks in the gathered data. `bounds` has one entry more than
// there are ranks.
struct Pieces {
  MutBytes all;
  std::span<const std::size_t> bounds;

  MutBytes operator()(int first, int end) const {
    const std::size_t begin = bounds[static_cast<std::size_t>(first)];
    return all.subspan(begin, bounds[static_cast<std::size_t>(end)] - begin);
  }
};

// Bruck's all-gather without its rotation. Before the round of distance d = 1, 2, 4, ... this rank
// has the pieces of the d ranks from itself upwards. It sends them to the rank d below and receives
// those that follow from the rank d above. In rank order the pieces are one run of bytes, or two
// where they wrap around the end, at the same place on the sender and the receiver, so they are
// sent without being copied.
class Dissemination {
 public:
  Dissemination(Transport& wire, Tag tag, Pieces pieces)
      : wire_(wire), tag_(tag), pieces_(pieces) {}

  void run() {
    for (int d = 1; d < wire_.size(); d *= 2) post_receives(d);
    for (int d = 1; d < wire_.size(); d *= 2) {
      post_sends(d);
      for (int run = runs(above(d), count(d)); run > 0; --run) wire_.wait(receives_.take());
    }
    while (!sends_.empty()) wire_.wait(sends_.take());
  }

 private:
  // There are at most two per round.
  struct Operations {
    std::array<Pending, 64> list{};
    std::size_t begin = 0, end = 0;
    bool empty() const { return begin == end; }
    const Pending& take() { return list[begin++]; }
    void add(const Pending& operation) { list[end++] = operation; }
  };

  int above(int d) const { return (wire_.rank() + d) % wire_.size(); }
  int below(int d) const { return (wire_.rank() + wire_.size() - d) % wire_.size(); }
  int count(int d) const { return std::min(d, wire_.size() - d); }
  int runs(int first, int pieces) const { return first + pieces > wire_.size() ? 2 : 1; }

  template <class Post>
  void for_runs(int first, int pieces, Post post) const {
    const int end = first + pieces;
    post(pieces_(first, std::min(end, wire_.size())));
    if (end > wire_.size()) post(pieces_(0, end - wire_.size()));
  }
  void post_receives(int d) {
    for_runs(above(d), count(d),
             [&](MutBytes run) { receives_.add(wire_.post_recv(above(d), tag_, run)); });
  }
  void post_sends(int d) {
    for_runs(wire_.rank(), count(d),
             [&](MutBytes run) { sends_.add(wire_.post_send(below(d), tag_, run)); });
  }

  Transport& wire_;
  Tag tag_;
  Pieces pieces_;
  Operations receives_;
  Operations sends_;
};

// Returns the bounds of the pieces, in the scratch memory of the lane.
template <class Length>
std::span<const std::size_t> bounds_of(Transport& wire, Length length) {
  const auto ranks = static_cast<std::size_t>(wire.size());
  const MutBytes room = wire.scratch((ranks + 1) * sizeof(std::size_t));
  const std::span<std::size_t> bounds(reinterpret_cast<std::size_t*>(room.data()), ranks + 1);
  bounds[0] = 0;
  for (std::size_t r = 0; r < ranks; ++r) bounds[r + 1] = bounds[r] + length(r);
  return bounds;
}

void place(Bytes mine, MutBytes at) {
  if (!mine.empty() && mine.data() != at.data()) std::memmove(at.data(), mine.data(), mine.size());
}

void gather_equal(Transport& wire, Tag tag, Bytes mine, MutBytes all) {
  const Pieces pieces{all, bounds_of(wire, [&](std::size_t) { return mine.size(); })};
  place(mine, pieces(wire.rank(), wire.rank() + 1));
  Dissemination(wire, tag, pieces).run();
}

void check_lengths(const Transport& wire, std::span<const std::uint64_t> lengths,
                   std::size_t max_bytes) {
  for (int r = 0; r < wire.size(); ++r) {
    const std::uint64_t length = lengths[static_cast<std::size_t>(r)];
    if (length > max_bytes) {
      throw WireError(fmt::format(
          "rank {}: all-gather: rank {} ({}) announces a piece that is too long ({} bytes; at most "
          "{}); all ranks must run the same version, model and options",
          wire.rank(), r, wire.host(r), length, max_bytes));
    }
  }
}

}  // namespace

void allgather(Transport& wire, Bytes mine, MutBytes all) {
  if (all.size() != mine.size() * static_cast<std::size_t>(wire.size())) {
    throw std::logic_error(
        fmt::format("allgather: wrong size of the result ({} bytes; {} pieces of {})", all.size(),
                    wire.size(), mine.size()));
  }
  if (mine.empty()) return;
  gather_equal(wire, collective::tag_of(collective::Stream::allgather), mine, all);
}

void allgather(Transport& wire, Bytes mine, Payload& all, std::span<std::uint64_t> lengths,
               std::size_t max_bytes) {
  if (lengths.size() != static_cast<std::size_t>(wire.size())) {
    throw std::logic_error(
        fmt::format("allgather: wrong number of lengths ({}; one for each of {} ranks)",
                    lengths.size(), wire.size()));
  }
  if (mine.size() > max_bytes) {
    throw std::logic_error(fmt::format("allgather: piece too long ({} bytes; max_bytes is {})",
                                       mine.size(), max_bytes));
  }
  const std::uint64_t length = mine.size();
  gather_equal(wire, collective::tag_of(collective::Stream::allgather_lengths),
               std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(lengths));
  check_lengths(wire, lengths, max_bytes);

  const auto bounds = bounds_of(wire, [&](std::size_t r) { return lengths[r]; });
  all.resize(bounds.back());
  const Pieces pieces{all, bounds};
  place(mine, pieces(wire.rank(), wire.rank() + 1));
  if (!all.empty())
    Dissemination(wire, collective::tag_of(collective::Stream::allgather), pieces).run();
}

void barrier(Transport& wire) {
  const Tag tag = collective::tag_of(collective::Stream::barrier);
  for (int d = 1; d < wire.size(); d *= 2) {
    const Pending arriving = wire.post_recv((wire.rank() + d) % wire.size(), tag, {});
    const Pending leaving = wire.post_send((wire.rank() + wire.size() - d) % wire.size(), tag, {});
    wire.wait(arriving);
    wire.wait(leaving);
  }
}

}  // namespace thinwire
