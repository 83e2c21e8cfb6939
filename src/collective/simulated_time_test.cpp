// Compares the documented cost of collectives with the simulator. Time is virtual, so exact times
// may be asserted.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/collective.h"
#include "transport/backends.h"

namespace thinwire::collective {
namespace {

bool simulator_is_built() {
  return std::ranges::any_of(transport_backends(),
                             [](const TransportBackend& backend) { return backend.name == "sim"; });
}

// The time of the slowest rank, and the bytes that all ranks send.
struct Cost {
  Seconds time{0};
  std::uint64_t bytes = 0;
};
template <class Exchange>
Cost simulate(int size, double payload_scale, Exchange exchange) {
  transport::BackendOptions options;
  options.size = size;
  options.network = Network{1e9, Seconds(1e-4)};
  options.payload_scale = payload_scale;
  Cost out;
  run_workers("sim", options, [&](Transport& wire) {
    barrier(wire);
    const Seconds start = wire.now();
    const std::uint64_t sent = wire.traffic().bytes_sent;
    exchange(wire);
    out.time = std::max(out.time, wire.now() - start);  // one actor runs at a time
    out.bytes += wire.traffic().bytes_sent - sent;
  });
  return out;
}

TEST(SimulatedTime, OfARingIsWithinFivePercentOfTheAlphaBetaFormula) {
  if (!simulator_is_built()) GTEST_SKIP() << "sim is not in this build";
  constexpr std::size_t kFloats = 2'000'000;
  for (const int size : {2, 3, 4, 5, 8, 16, 32}) {
    const Cost cost = simulate(size, 1, [](Transport& wire) {
      std::vector<float> data(kFloats, 1.0f);
      allreduce_sum(wire, MutFloats(data), Route::ring);
    });
    const double steps = 2.0 * (size - 1);
    const double formula = steps * 1e-4 + steps / size * kFloats * 4 * 8 / 1e9;
    EXPECT_NEAR(cost.time.count(), formula, 0.05 * formula) << size << " workers";
  }
}

// `plan` relies on this property: a payload that represents a larger one takes the same time, for
// sizes on both sides of every choice of an algorithm.
RC_GTEST_PROP(SimulatedTime, OfAScaledPayloadIsThatOfTheWholePayload, ()) {
  if (!simulator_is_built()) return;
  const int size = *rc::gen::inRange(2, 18);
  const auto weight = *rc::gen::element<std::size_t>(2, 8, 64);
  const auto floats = *rc::gen::element<std::size_t>(100, 1000, 10'000, 50'000);
  for (const bool all : {true, false}) {
    const auto exchange = [&](std::size_t count) {
      return [=](Transport& wire) {
        std::vector<float> data(count, 1.0f);
        if (all) return allreduce_sum(wire, MutFloats(data));
        broadcast(wire, std::as_writable_bytes(std::span(data)));
      };
    };
    const Cost whole = simulate(size, 1, exchange(floats * weight));
    const Cost part = simulate(size, static_cast<double>(weight), exchange(floats));
    RC_ASSERT(part.bytes * weight == whole.bytes);
    // Shares and chunks of few floats are less equal in size.
    RC_ASSERT(std::abs(part.time / whole.time - 1) < 0.03);
  }
}

}  // namespace
}  // namespace thinwire::collective
