#include <gtest/gtest.h>

#include <mutex>

#include "thinwire/engines.h"
#include "thinwire/random.h"
#include "thinwire/strategy.h"

namespace thinwire {
namespace {

// Multiples of 2^-11 below 1: their sums over a few hundred ranks are exact in any order.
float value(int rank, std::size_t element) {
  const auto block = philox(11, static_cast<std::uint64_t>(rank), element, Purpose::test);
  return static_cast<float>(block[0] >> 21) * 0x1.0p-11f;
}

std::vector<std::vector<float>> averaged(int workers, std::size_t numel) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(workers));
  JoinOptions options;
  options.size = workers;
  run_workers("threads", options, [&](Transport& wire) {
    std::vector<float> grads(numel);
    for (std::size_t i = 0; i < numel; ++i) grads[i] = value(wire.rank(), i);
    const Layout layout{{{"all", 0, {numel}}}, numel};
    Stats stats;
    StepContext context{0, {{}, grads, layout}, wire, stats};
    const auto strategy = make_strategy("dense");
    strategy->begin(context);
    strategy->after_backward(context);
    strategy->end(context);
    results[static_cast<std::size_t>(wire.rank())] = std::move(grads);
  });
  return results;
}

TEST(Dense, IsTheMeanOnEveryRank) {
  for (const int workers : {2, 3, 4, 5, 8, 17}) {
    for (const std::size_t numel : {0u, 1u, 7u, 1000u, 40'003u}) {
      const auto results = averaged(workers, numel);
      for (std::size_t i = 0; i < numel; ++i) {
        float sum = 0;
        for (int rank = 0; rank < workers; ++rank) sum += value(rank, i);
        for (const auto& result : results) {
          ASSERT_EQ(result[i], sum / static_cast<float>(workers)) << workers << " workers, " << i;
        }
      }
    }
  }
}

TEST(Dense, LeavesASingleWorkerAlone) {
  const auto results = averaged(1, 1000);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(results[0][i], value(0, i));
}

}  // namespace
}  // namespace thinwire
