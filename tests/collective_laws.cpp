#include "tests/collective_laws.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "collective/quantized_allreduce.h"
#include "collective/two_hop.h"
#include "thinwire/collective.h"

namespace thinwire::laws {
namespace {

void require(bool holds, std::string_view what) {
  if (!holds) throw std::runtime_error(std::string(what));
}

// Element i of a rank's contribution. Sums over up to 1024 ranks are exact in a float.
std::uint32_t element(int rank, std::size_t i) {
  return static_cast<std::uint32_t>((i * 7919 + static_cast<std::size_t>(rank) * 104'729) % 8191);
}

template <class T>
std::vector<T> contribution(int rank, std::size_t numel) {
  std::vector<T> out(numel);
  for (std::size_t i = 0; i < numel; ++i) out[i] = static_cast<T>(element(rank, i));
  return out;
}

template <class T, class Op>
std::vector<T> reduced(int size, std::size_t numel, Op op) {
  std::vector<T> out = contribution<T>(0, numel);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<T> other = contribution<T>(rank, numel);
    for (std::size_t i = 0; i < numel; ++i) out[i] = static_cast<T>(op(out[i], other[i]));
  }
  return out;
}

template <class T>
using Allreduce = void (*)(Transport&, std::span<T>, Route);

template <class T, Allreduce<T> call, class Op>
void allreduce_law(Transport& wire, std::size_t numel) {
  const std::vector<T> expected = reduced<T>(wire.size(), numel, Op{});
  for (const Route route : {Route::automatic, Route::ring, Route::doubling}) {
    std::vector<T> data = contribution<T>(wire.rank(), numel);
    call(wire, data, route);
    require(data == expected, fmt::format("wrong result on route {}", static_cast<int>(route)));
  }
}

struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct Smaller {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};

void reduce_scatter_law(Transport& wire, std::size_t numel) {
  std::vector<float> data = contribution<float>(wire.rank(), numel);
  reduce_scatter_sum(wire, data);
  const std::vector<float> expected = reduced<float>(wire.size(), numel, std::plus<>());
  const Share mine = share_of(numel, wire.rank(), wire.size());
  require(std::equal(data.begin() + static_cast<std::ptrdiff_t>(mine.begin),
                     data.begin() + static_cast<std::ptrdiff_t>(mine.end),
                     expected.begin() + static_cast<std::ptrdiff_t>(mine.begin)),
          "wrong share");
}

void allgather_law(Transport& wire, std::size_t numel) {
  const std::vector<std::uint16_t> mine = contribution<std::uint16_t>(wire.rank(), numel);
  std::vector<std::uint16_t> all(numel * static_cast<std::size_t>(wire.size()));
  allgather(wire, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (int r = 0; r < wire.size(); ++r) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(numel) * r;
    require(std::equal(begin, begin + static_cast<std::ptrdiff_t>(numel),
                       contribution<std::uint16_t>(r, numel).begin()),
            fmt::format("the piece of rank {} is wrong", r));
  }
}

// Every third rank has nothing to say.
void allgather_unequal_law(Transport& wire, std::size_t numel) {
  const auto piece = [&](int rank) {
    const auto length = rank % 3 == 1 ? 0 : numel / static_cast<std::size_t>(rank + 1);
    return contribution<std::uint8_t>(rank, length);
  };
  Payload all;
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(wire.size()));
  const std::vector<std::uint8_t> mine = piece(wire.rank());
  allgather(wire, std::as_bytes(std::span(mine)), all, lengths);
  std::size_t at = 0;
  for (int r = 0; r < wire.size(); ++r) {
    const std::vector<std::uint8_t> expected = piece(r);
    require(lengths[static_cast<std::size_t>(r)] == expected.size(), "wrong length");
    require(std::ranges::equal(Bytes(all).subspan(at, expected.size()),
                               std::as_bytes(std::span(expected))),
            fmt::format("the piece of rank {} is wrong", r));
    at += expected.size();
  }
  require(at == all.size(), "too many bytes");
}

void broadcast_law(Transport& wire, std::size_t numel) {
  for (const int root : {0, wire.size() - 1, wire.size() / 2}) {
    std::vector<std::uint32_t> data = contribution<std::uint32_t>(wire.rank(), numel);
    broadcast(wire, std::as_writable_bytes(std::span(data)), root);
    require(data == contribution<std::uint32_t>(root, numel), fmt::format("from root {}", root));
  }
}

void barrier_law(Transport& wire, std::size_t) { barrier(wire); }

// Concatenates the values, which shows the order of the operands.
struct Concatenation {
  void encode(const Payload& value, Payload& out) {
    out.insert(out.end(), value.begin(), value.end());
  }
  void decode(Bytes in, Payload& out) { out.assign(in.begin(), in.end()); }
  void combine(const Payload& lower, const Payload& higher, Payload& out) {
    out = lower;
    out.insert(out.end(), higher.begin(), higher.end());
  }
};

void merge_law(Transport& wire, std::size_t numel) {
  const auto piece = [&](int rank) {
    return contribution<std::uint8_t>(rank, 1 + numel / 8 * static_cast<std::size_t>(rank % 4) /
                                                    static_cast<std::size_t>(wire.size()));
  };
  const std::vector<std::uint8_t> mine = piece(wire.rank());
  const Bytes raw = std::as_bytes(std::span(mine));
  Payload value(raw.begin(), raw.end());
  Concatenation rule;
  ButterflyMerge<Payload>().run(wire, value, numel + static_cast<std::size_t>(wire.size()), rule);
  std::size_t at = 0;
  for (int r = 0; r < wire.size(); ++r) {
    const std::vector<std::uint8_t> expected = piece(r);
    require(at + expected.size() <= value.size() &&
                std::ranges::equal(Bytes(value).subspan(at, expected.size()),
                                   std::as_bytes(std::span(expected))),
            fmt::format("the value of rank {} is not in its place", r));
    at += expected.size();
  }
  require(at == value.size(), "too many bytes");
}

// 16 bits out, sums of 32 bits back, in three pieces.
class WideningSum final : public collective::TwoHop {
 public:
  WideningSum(const Transport& wire, std::size_t numel)
      : rank_(wire.rank()),
        size_(wire.size()),
        in_(contribution<std::uint16_t>(wire.rank(), numel)),
        out_(numel) {}

  static constexpr std::size_t kPieces = 3;
  const std::vector<std::uint32_t>& result() const { return out_; }

  std::size_t narrow_bytes(int owner, std::size_t piece) const override {
    return range(owner, piece).size() * sizeof(std::uint16_t);
  }
  std::size_t wide_bytes(int owner, std::size_t piece) const override {
    return range(owner, piece).size() * sizeof(std::uint32_t);
  }
  void give(int owner, std::size_t piece, MutBytes narrow) override {
    if (!narrow.empty()) {
      std::memcpy(narrow.data(), in_.data() + range(owner, piece).begin, narrow.size());
    }
  }
  void begin_sum(std::size_t piece) override {
    const Share mine = range(rank_, piece);
    for (std::size_t i = mine.begin; i < mine.end; ++i) out_[i] = in_[i];
  }
  void add(std::size_t piece, Bytes narrow) override {
    const Share mine = range(rank_, piece);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      std::uint16_t summand = 0;
      std::memcpy(&summand, narrow.data() + i * sizeof summand, sizeof summand);
      out_[mine.begin + i] += summand;
    }
  }
  void end_sum(std::size_t piece, MutBytes wide) override {
    if (!wide.empty()) {
      std::memcpy(wide.data(), out_.data() + range(rank_, piece).begin, wide.size());
    }
  }
  void take(int owner, std::size_t piece, Bytes wide) override {
    if (!wide.empty()) {
      std::memcpy(out_.data() + range(owner, piece).begin, wide.data(), wide.size());
    }
  }

 private:
  Share range(int owner, std::size_t piece) const {
    const Share share = share_of(in_.size(), owner, size_);
    const Share part = share_of(share.size(), static_cast<int>(piece), kPieces);
    return {share.begin + part.begin, share.begin + part.end};
  }

  int rank_, size_;
  std::vector<std::uint16_t> in_;
  std::vector<std::uint32_t> out_;
};

void two_hop_law(Transport& wire, std::size_t numel) {
  WideningSum data(wire, numel);
  collective::TwoHopExchange().run(wire, WideningSum::kPieces, data);
  require(data.result() == reduced<std::uint32_t>(wire.size(), numel, std::plus<>()), "wrong sums");
}

class NoTiming final : public collective::PhaseTiming {
 public:
  void compute(collective::Work work) override { work(); }
};

// The mean is right to within a step of the lattice.
void quantized_allreduce_law(Transport& wire, std::size_t numel) {
  std::vector<float> values = contribution<float>(wire.rank(), numel);
  collective::QuantizedAllreduce allreduce({.bits = {8}, .bucket_tiles = 1});
  allreduce.begin(numel, wire.size());
  NoTiming timing;
  require(allreduce.agree(wire, timing, values, 0), "all values are finite");
  allreduce.exchange(wire, timing, {values, values, collective::Rounding::dithered, 1, 1});
  const std::vector<float> sums = reduced<float>(wire.size(), numel, std::plus<>());
  const auto ranks = static_cast<float>(wire.size());
  constexpr float kStep = 8191.0f / 255;
  for (std::size_t i = 0; i < numel; ++i) {
    require(std::abs(values[i] - sums[i] / ranks) <= kStep, fmt::format("wrong mean at {}", i));
  }
}

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr CollectiveLaw kCollectives[] = {
    {"allreduce_sum_float", allreduce_law<float, allreduce_sum, std::plus<>>},
    {"allreduce_sum_u8", allreduce_law<u8, allreduce_sum, std::plus<>>},
    {"allreduce_sum_u16", allreduce_law<u16, allreduce_sum, std::plus<>>},
    {"allreduce_sum_u32", allreduce_law<u32, allreduce_sum, std::plus<>>},
    {"allreduce_sum_u64", allreduce_law<u64, allreduce_sum, std::plus<>>},
    {"allreduce_max_u32", allreduce_law<u32, allreduce_max, Larger>},
    {"allreduce_max_u64", allreduce_law<u64, allreduce_max, Larger>},
    {"allreduce_min_u32", allreduce_law<u32, allreduce_min, Smaller>},
    {"allreduce_min_u64", allreduce_law<u64, allreduce_min, Smaller>},
    {"allreduce_and_u32", allreduce_law<u32, allreduce_and, std::bit_and<>>},
    {"allreduce_and_u64", allreduce_law<u64, allreduce_and, std::bit_and<>>},
    {"reduce_scatter_sum", reduce_scatter_law},
    {"allgather", allgather_law},
    {"allgather_unequal", allgather_unequal_law},
    {"broadcast", broadcast_law},
    {"barrier", barrier_law},
    {"merge_butterfly", merge_law},
    {"two_hop", two_hop_law},
    {"quantized_allreduce", quantized_allreduce_law},
};

}  // namespace

std::span<const CollectiveLaw> collectives() { return kCollectives; }

void check_collectives(Transport& wire) {
  for (const CollectiveLaw& law : kCollectives) {
    for (const std::size_t numel : {std::size_t{0}, std::size_t{3}, std::size_t{200'000}}) {
      try {
        law.check(wire, numel);
      } catch (const std::runtime_error& error) {
        if (dynamic_cast<const Error*>(&error) != nullptr) throw;
        throw std::runtime_error(fmt::format("{}, {} elements, rank {} of {}: {}", law.name, numel,
                                             wire.rank(), wire.size(), error.what()));
      }
    }
  }
}

}  // namespace thinwire::laws
