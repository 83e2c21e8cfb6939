// The documented cost of the all-reduce, against the simulator: virtual time, so exact times may be
// asserted.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "thinwire/collective.h"
#include "thinwire/engines.h"

namespace thinwire {
namespace {

TEST(SimulatedTime, OfARingIsWithinFivePercentOfTheAlphaBetaFormula) {
  const bool built =
      std::ranges::any_of(engines(), [](const Engine& engine) { return engine.name == "sim"; });
  if (!built) GTEST_SKIP() << "sim is not in this build";
  constexpr std::size_t kFloats = 2'000'000;
  for (const int size : {2, 3, 4, 5, 8, 16, 32}) {
    JoinOptions options;
    options.size = size;
    options.network = Network{1e9, Seconds(1e-4)};
    Seconds slowest{0};
    run_workers("sim", options, [&](Transport& wire) {
      std::vector<float> data(kFloats, 1.0f);
      barrier(wire);
      const Seconds start = wire.now();
      allreduce_sum(wire, MutFloats(data), Route::ring);
      slowest = std::max(slowest, wire.now() - start);  // one actor runs at a time
    });
    const double steps = 2.0 * (size - 1);
    const double formula = steps * 1e-4 + steps / size * kFloats * 4 * 8 / 1e9;
    EXPECT_NEAR(slowest.count(), formula, 0.05 * formula) << size << " workers";
  }
}

}  // namespace
}  // namespace thinwire
