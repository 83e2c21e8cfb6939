// Functions that the tests of the collectives share.
#pragma once

#include <bit>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "thinwire/launch.h"

namespace thinwire::test {

inline constexpr int kGroupSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33};

// Runs the worker on `size` ranks, which are threads. The timeout is the default, which no test
// reaches.
inline void on_ranks(int size, const Worker& worker) {
  JoinOptions options;
  options.size = size;
  run_workers("threads", options, worker);
}

// Counts the bytes and messages that a rank has sent since this object was constructed.
class Sent {
 public:
  explicit Sent(const Transport& wire)
      : traffic_(wire.traffic()), bytes_(traffic_.bytes_sent), messages_(traffic_.messages_sent) {}
  std::uint64_t bytes() const { return traffic_.bytes_sent - bytes_; }
  std::uint64_t messages() const { return traffic_.messages_sent - messages_; }

 private:
  const Traffic& traffic_;
  std::uint64_t bytes_;
  std::uint64_t messages_;
};

// Returns a random float; one in four is a NaN with a payload, an infinity, a denormal, a zero or
// very large.
inline float wild_float(std::uint64_t seed, int rank, std::size_t i) {
  const auto random = base::philox(seed, static_cast<std::uint64_t>(rank), i, base::Purpose::test);
  const std::uint32_t sign = random[1] & 0x8000'0000u;
  switch (random[0] % 24) {
    case 0:
      return std::bit_cast<float>(sign | 0x7fc0'0000u | (random[2] & 0x003f'ffffu));
    case 1:
      // A signaling NaN.
      return std::bit_cast<float>(sign | 0x7f80'0001u | (random[2] & 0x000f'fff0u));
    case 2:
      return std::bit_cast<float>(sign | 0x7f80'0000u);
    case 3:
      return std::bit_cast<float>(sign | (random[2] & 0x007f'ffffu));
    case 4:
      return std::bit_cast<float>(sign);
    case 5:
      return std::bit_cast<float>(sign | 0x7f00'0000u | (random[2] & 0x007f'ffffu));
    default:
      return base::unit_float(random[2]) - base::unit_float(random[3]);
  }
}

inline std::vector<float> wild_floats(std::uint64_t seed, int rank, std::size_t n) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = wild_float(seed, rank, i);
  return out;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace thinwire::test
