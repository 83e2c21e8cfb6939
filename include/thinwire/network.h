// A network as a user states it: "1gbit,0.2ms".
#pragma once

#include <string>
#include <string_view>

#include "thinwire/buffer.h"

namespace thinwire {

// Each worker hangs on its own full-duplex link of this bandwidth; `latency` is the one-way time of
// an empty message between two workers.
struct Network {
  double bits_per_second = 0;  // 0: unlimited
  Seconds latency{0};

  // "BANDWIDTH" or "BANDWIDTH,LATENCY": 10mbit, 1gbit, 2.5gbit, unlimited; 50us, 0.2ms, 0.1s.
  // Throws ConfigError with an example.
  static Network parse(std::string_view text);
  std::string str() const;

  Seconds transfer_time(std::size_t bytes) const noexcept {
    return Seconds(bits_per_second > 0 ? 8.0 * static_cast<double>(bytes) / bits_per_second : 0.0);
  }
};

}  // namespace thinwire
