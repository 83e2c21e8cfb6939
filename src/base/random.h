// Random numbers that are a function of (seed, step, element, purpose) alone: the same on every
// rank, thread and transport, in whatever order they are drawn.
#pragma once

#include <array>
#include <cstdint>

namespace thinwire::base {

// Each use draws from its own stream, so that adding a consumer changes no other numbers. The
// values determine the random numbers of a run, so they never change.
enum class Purpose : std::uint16_t {
  test = 0,
  bench = 1,
  fault = 2,
  shuffle = 10,   // the order of an epoch
  augment = 11,   // crops and flips
  digits = 12,    // the images of the built-in data set
  dropout = 13,   // masks of dropout layers
  rounding = 20,  // of quantized gradients
  places = 21,    // indices of the entries that Global RandK sends
  power = 22,     // starting vectors of PowerSGD
  peers = 23,     // receivers of gossip messages
  bucket = 24,    // seeds of the buckets of a gradient
};

// Returns four words of Philox4x32-10 (Salmon et al., SC 2011), computed by Random123. `element`
// must be below 2^48.
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t step, std::uint64_t element,
                                    Purpose purpose) noexcept;

// Returns a number that is uniform in [0, 1). It has 24 random bits, so that it is exact in a
// float.
inline float unit_float(std::uint32_t bits) noexcept {
  return static_cast<float>(bits >> 8) * 0x1.0p-24f;
}

}  // namespace thinwire::base
