// The memory of every strategy does not grow in a long run.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cctype>

#include "testing/toy_training.h"
#include "thinwire/collective.h"
#include "thinwire/launch.h"

namespace thinwire::strategy {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHeapIsReplaced = true;
#else
constexpr bool kHeapIsReplaced = false;
#endif

// Returns the bytes of all threads, including memory that they keep for their next allocations.
std::size_t heap_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

class Heap : public testing::TestWithParam<std::string> {};

TEST_P(Heap, DoesNotGrowAfterAThousandSteps) {
  if (kHeapIsReplaced) GTEST_SKIP() << "a sanitizer has its own heap, and finds leaks itself";
  constexpr std::uint64_t kWarmUp = 1000, kSteps = 5000;
  constexpr std::size_t kNoise = 16 << 10;  // 4 bytes per step would show
  std::size_t before = 0, after = 0;
  JoinOptions options;
  options.size = 3;
  run_workers("threads", options, [&](Transport& wire) {
    test::ToyTraining training(wire, GetParam());
    // Measures while no message is in flight and all ranks wait.
    const auto measure = [&](std::size_t& result) {
      training.checkpoint();
      barrier(wire);
      if (wire.rank() == 0) result = heap_in_use();
      barrier(wire);
    };
    training.run(kWarmUp);
    measure(before);
    training.run(kSteps - kWarmUp);
    measure(after);
    training.end();
  });
  EXPECT_LE(after, before + kNoise);
}

std::vector<std::string> all_strategies() {
  std::vector<std::string> names;
  for (const StrategyInfo& entry : strategies()) names.emplace_back(entry.name);
  names.emplace_back("gossip:bits=4");  // its quantized messages use memory of their own
  return names;
}

std::string test_name(std::string spec) {
  std::ranges::replace_if(
      spec, [](char c) { return std::isalnum(c) == 0; }, '_');
  return spec;
}

INSTANTIATE_TEST_SUITE_P(Each, Heap, testing::ValuesIn(all_strategies()),
                         [](const auto& strategy) { return test_name(strategy.param); });

}  // namespace
}  // namespace thinwire::strategy
