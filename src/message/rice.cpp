#include "message/rice.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "thinwire/error.h"

namespace thinwire::message::rice {
namespace {

// How many bits fit into one 64-bit store together with the up to 7 bits of an incomplete byte.
constexpr unsigned kStoreBits = 56;

// With a parameter up to this one, two codes nearly always fit into kStoreBits.
constexpr unsigned kMostOfPair = 20;

// 0.69 sqrt(2) in units of 1/1024. The rounded logarithm of x is the floor of the logarithm of
// sqrt(2) x.
constexpr std::uint64_t kScale = 999;

std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

constexpr std::uint32_t low_bits(unsigned count) { return (std::uint32_t{1} << count) - 1; }

class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}

  // Appends at most kStoreBits bits. It stores a whole word each time, so that no branch depends on
  // the data.
  void put(std::uint64_t bits, unsigned count) {
    pending_ |= bits << filled_;
    filled_ += count;
    std::memcpy(out_, &pending_, sizeof pending_);
    const unsigned whole = filled_ & ~7U;
    out_ += whole / 8;
    pending_ >>= whole;
    filled_ &= 7U;
  }

  void put_zeros(std::uint64_t count) {
    for (; count > kStoreBits; count -= kStoreBits) put(0, kStoreBits);
    put(0, static_cast<unsigned>(count));
  }

  void flush() { std::memcpy(out_, &pending_, sizeof pending_); }

 private:
  std::byte* out_;
  std::uint64_t pending_ = 0;
  unsigned filled_ = 0;  // bits in pending_, below 8 between calls
};

// Reads the bits of a stream in order; zeros follow its end.
class BitReader {
 public:
  explicit BitReader(Bytes in) : begin_(in.data()), next_(in.data()), end_(in.data() + in.size()) {}

  // Makes at least kStoreBits bits ready. Only the shift, not the load, depends on the bits that
  // were just taken (F. Giesen, "Reading bits in far too many ways", 2018).
  void refill() {
    if (end_ - next_ >= 8) [[likely]] {
      ready_ |= load_word(next_) << count_;
      next_ += (63 - count_) / 8;
      count_ |= kStoreBits;
    } else {
      refill_at_end();
    }
  }

  // Returns the number of zero bits before the next one bit, among the bits that are ready.
  unsigned zeros() const { return static_cast<unsigned>(std::countr_zero(ready_)); }
  std::uint64_t ready() const { return ready_; }

  void take(unsigned count) {
    ready_ >>= count;
    count_ -= count;
  }

  std::uint64_t taken() const {
    return static_cast<std::uint64_t>(next_ - begin_) * 8 + beyond_ - count_;
  }

 private:
  void refill_at_end() {
    for (; count_ <= kStoreBits; count_ += 8) {
      if (next_ < end_) {
        ready_ |= std::to_integer<std::uint64_t>(*next_++) << count_;
      } else {
        beyond_ += 8;
      }
    }
  }

  const std::byte* begin_;
  const std::byte* next_;
  const std::byte* end_;
  std::uint64_t beyond_ = 0;  // bits after the end of the stream that were made ready
  std::uint64_t ready_ = 0;
  unsigned count_ = 0;  // bits in ready_
};

[[noreturn]] void refuse(std::string_view reason) {
  throw WireError(fmt::format("sparse message: the index stream {}", reason));
}

// Reads a quotient that is too long for one refill. Throws at the end of the stream and above
// `most`.
std::uint64_t long_quotient(BitReader& in, std::uint64_t bits, std::uint64_t most) {
  std::uint64_t quotient = 0;
  for (;;) {
    in.refill();
    const unsigned zeros = std::min(in.zeros(), kStoreBits);
    quotient += zeros;
    in.take(zeros);
    if (zeros < kStoreBits) return quotient;
    if (in.taken() >= bits) refuse("ends inside an index");
    if (quotient > most) refuse("has an index beyond the vector");
  }
}

// Reads the next gap if its code is longer than its share of a refill, which is rare.
std::uint64_t long_gap(BitReader& in, unsigned r, std::uint64_t bits, std::uint64_t most) {
  const std::uint64_t quotient = long_quotient(in, bits, most >> r);
  in.refill();
  const std::uint64_t rest = in.ready() >> 1 & low_bits(r);
  in.take(r + 1);
  in.refill();
  return quotient << r | rest;
}

// Calls visit(gap) for `count` gaps; no gap exceeds `most` by more than 2^r + kStoreBits. One
// refill serves kTogether codes, each of which has its share of the bits.
template <unsigned kTogether, class Visit>
BitReader walk_together(Bytes stream, unsigned r, std::uint64_t count, std::uint64_t most,
                        Visit visit) {
  BitReader in(stream);
  const std::uint64_t bits = stream.size() * 8;
  const unsigned limit = kStoreBits / kTogether - r;
  const auto next = [&] {
    const unsigned zeros = in.zeros();
    if (zeros >= limit) [[unlikely]]
      return visit(long_gap(in, r, bits, most));
    const std::uint64_t rest = in.ready() >> (zeros + 1) & low_bits(r);
    in.take(zeros + 1 + r);
    visit(std::uint64_t{zeros} << r | rest);
  };
  std::uint64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    in.refill();
    for (unsigned code = 0; code < kTogether; ++code) next();
  }
  in.refill();
  for (; i < count; ++i) next();
  return in;
}

template <class Visit>
BitReader walk(Bytes stream, unsigned r, std::uint64_t count, std::uint64_t most, Visit visit) {
  return r <= kMostOfPair ? walk_together<2>(stream, r, count, most, visit)
                          : walk_together<1>(stream, r, count, most, visit);
}

}  // namespace

unsigned parameter(std::uint64_t numel, std::uint64_t count) {
  const std::uint64_t spacing = numel * kScale / (std::max<std::uint64_t>(count, 1) * 1024);
  return spacing == 0 ? 0 : static_cast<unsigned>(std::bit_width(spacing)) - 1;
}

std::uint64_t max_words(std::uint64_t numel, std::uint64_t count) {
  if (count == 0) return 0;
  // The sum of all gaps is at most numel - count, so the sum of the quotients is at most that
  // divided by 2^r. For a given parameter the length grows with the count, but where a larger count
  // changes the parameter, the length may fall. So the largest count of every parameter is
  // considered.
  const auto longest = [numel](std::uint64_t entries, unsigned r) {
    return words(entries, r, (numel - entries) >> r);
  };
  std::uint64_t most = longest(count, parameter(numel, count));
  for (unsigned r = parameter(numel, count) + 1; r <= parameter(numel, 1); ++r) {
    most = std::max(most, longest(numel * kScale / 1024 >> r, r));
  }
  return most;
}

std::uint64_t words(std::span<const std::uint32_t> indices, unsigned r) {
  if (indices.empty()) return 0;
  std::uint64_t quotients = indices[0] >> r;
  for (std::size_t i = 1; i < indices.size(); ++i) {
    quotients += (indices[i] - indices[i - 1] - 1) >> r;
  }
  return words(indices.size(), r, quotients);
}

void encode(std::span<const std::uint32_t> indices, unsigned r, std::byte* out) {
  BitWriter writer(out);
  const unsigned shortest_long = kStoreBits - r;
  std::uint32_t lowest = 0;  // the smallest value that the next index can have
  for (const std::uint32_t index : indices) {
    const std::uint32_t gap = index - lowest;
    lowest = index + 1;
    unsigned quotient = gap >> r;
    if (quotient >= shortest_long) [[unlikely]] {
      writer.put_zeros(quotient);
      quotient = 0;
    }
    const std::uint64_t rest = gap & low_bits(r);
    writer.put((rest << 1 | 1) << quotient, quotient + r + 1);
  }
  writer.flush();
}

void check(Bytes stream, unsigned r, std::uint64_t count, std::uint64_t numel) {
  std::uint64_t lowest = 0;
  const BitReader read = walk(stream, r, count, numel, [&](std::uint64_t gap) {
    lowest += gap + 1;
    if (lowest > numel) refuse("has an index beyond the vector");
  });
  const std::uint64_t bits = stream.size() * 8;
  if (read.taken() > bits) refuse("ends inside an index");
  if (bits - read.taken() >= 64) refuse("continues after its last index");
  if (read.taken() < bits && load_word(stream.data() + stream.size() - 8) >> read.taken() % 64) {
    refuse("continues after its last index");
  }
}

void decode(Bytes stream, unsigned r, std::span<std::uint32_t> indices) {
  std::uint32_t lowest = 0;
  std::uint32_t* out = indices.data();
  walk(stream, r, indices.size(), ~std::uint64_t{0}, [&](std::uint64_t gap) {
    const std::uint32_t index = lowest + static_cast<std::uint32_t>(gap);
    *out++ = index;
    lowest = index + 1;
  });
}

}  // namespace thinwire::message::rice
