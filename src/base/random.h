// Random numbers that are a function of (seed, step, element, purpose) alone: the same on every
// rank, thread and transport, whatever the order in which they are drawn.
#pragma once

#include <array>
#include <cstdint>

namespace thinwire::base {

// Each use draws from its own stream, so that adding a consumer changes no other numbers.
// Values are part of a run's identity: never renumber.
enum class Purpose : std::uint16_t {
  test = 0,
  bench = 1,
  fault = 2,
  shuffle = 10,   // the order of an epoch
  augment = 11,   // crops and flips
  digits = 12,    // the built-in pictures
  dropout = 13,   // masks of units
  rounding = 20,  // of quantized gradients
  places = 21,    // that Global RandK sends
  power = 22,     // starting vectors of PowerSGD
  peers = 23,     // whom a gossip reaches
  bucket = 24,    // seeds of the buckets of a gradient
};

// Philox4x32-10 (Salmon et al., SC 2011), by way of Random123. `element` must be below 2^48.
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t step, std::uint64_t element,
                                    Purpose purpose) noexcept;

// Uniform in [0, 1) with 24 random bits: every value is exact in a float.
inline float unit_float(std::uint32_t bits) noexcept {
  return static_cast<float>(bits >> 8) * 0x1.0p-24f;
}

}  // namespace thinwire::base
