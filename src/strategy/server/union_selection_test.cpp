#include "strategy/server/union_selection.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

constexpr std::size_t kNumel = 40;

Sparse came_back(std::vector<std::uint32_t> indices) {
  Sparse out;
  for (const std::uint32_t index : indices) out.push_back(index, 1 + static_cast<float>(index));
  return out;
}

UnionMemory memory_of(SelectionRule rule, const std::vector<Sparse>& aggregates,
                      std::size_t k = 4) {
  UnionMemory memory(rule);
  memory.begin(kNumel, static_cast<int>(aggregates.size()));
  memory.observe(k, aggregates);
  return memory;
}

// A residual of 40 - i at every index i: the first are the largest.
struct Worker {
  Worker() : residual(kNumel), zeros(kNumel) {
    for (std::size_t i = 0; i < kNumel; ++i) residual[i] = static_cast<float>(kNumel - i);
  }
  Sparse select(std::size_t k, const UnionMemory& memory, const Preference& preference = {}) {
    Sparse out;
    UnionSelection selection;
    selection.select({.gradient = zeros, .residual = residual, .velocity = {}, .params = {}}, k,
                     memory, preference, out);
    return out;
  }
  std::vector<float> residual, zeros;
};

using Indices = std::vector<std::uint32_t>;

TEST(UnionSelection, HysteresisCountsWhatCameBackMore) {
  const auto memory = memory_of(SelectionRule::hysteresis, {came_back({15, 19, 21, 35})});
  Worker worker;
  // Twice 25 and twice 21 are more than 40; twice 19 is not.
  EXPECT_EQ(worker.select(4, memory).indices, (Indices{0, 1, 15, 19}));
  EXPECT_EQ(Worker().select(4, memory, {.lambda = 0}).indices, (Indices{0, 1, 2, 3}));
  EXPECT_EQ(Worker().select(4, memory, {.lambda = 8}).indices, (Indices{15, 19, 21, 35}));
  EXPECT_EQ(worker.residual[21], 19);  // what was only preferred is as it was
  EXPECT_EQ(worker.residual[15], 0);
}

TEST(UnionSelection, MaskTakesTheStrongestAndAQuotaOfOthers) {
  // The four largest of the aggregate, which are those of the highest indices here.
  const auto memory = memory_of(SelectionRule::mask, {came_back({1, 5, 20, 25, 30, 35})});
  EXPECT_EQ(Indices(memory.mask(0).begin(), memory.mask(0).end()), (Indices{20, 25, 30, 35}));
  EXPECT_EQ(Worker().select(4, memory, {.quota = 0.25}).indices, (Indices{0, 20, 25, 30}));
  EXPECT_EQ(Worker().select(4, memory, {.quota = 0.5}).indices, (Indices{0, 1, 20, 25}));
  EXPECT_EQ(Worker().select(4, memory, {.quota = 1}).indices, (Indices{0, 1, 2, 3}));
  EXPECT_EQ(Worker().select(4, memory, {.quota = 0}).indices, (Indices{20, 25, 30, 35}));
}

TEST(UnionSelection, PrefersLessBelowOnePercent) {
  for (const double density : {0.01, 0.05, 1.0}) {
    EXPECT_EQ(bounded({.lambda = 2, .quota = 0.25}, density).lambda, 2);
    EXPECT_EQ(bounded({.lambda = 2, .quota = 0.25}, density).quota, 0.25);
  }
  const Preference weak = bounded({.lambda = 2, .quota = 0.25}, 0.0001);
  EXPECT_NEAR(weak.lambda, 0.2, 1e-6);
  EXPECT_NEAR(weak.quota, 0.925, 1e-12);
  EXPECT_EQ(bounded({.lambda = 2, .quota = 1}, 0.0001).quota, 1);
}

// Every rule picks at most k entries, each with the value of the residual, and changes nothing
// else.
RC_GTEST_PROP(UnionSelectionProperty, MovesPicksAndNothingElse, ()) {
  const auto rule = static_cast<SelectionRule>(*rc::gen::inRange(0, 3));
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 100'000);
  const auto k = *rc::gen::inRange<std::size_t>(1, kNumel + 1);
  UnionMemory memory(rule);
  memory.begin(kNumel, *rc::gen::inRange(1, 4));
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::vector<Sparse> aggregates(memory.shards());
    for (std::size_t shard = 0; shard < memory.shards(); ++shard) {
      for (std::uint32_t i = 0; i < memory.range(shard).size(); ++i) {
        const auto random = base::philox(seed, step, 100 * shard + i, base::Purpose::test);
        if (random[0] % 3 == 0) aggregates[shard].push_back(i, base::unit_float(random[1]));
      }
    }
    memory.observe(k, aggregates);
  }
  Worker worker;
  for (std::size_t i = 0; i < kNumel; ++i) {
    const auto random = base::philox(seed, 9, i, base::Purpose::test);
    worker.residual[i] = random[0] % 4 == 0 ? 0 : base::unit_float(random[1]) - 0.5f;
  }
  const auto before = worker.residual;
  const Sparse picks =
      worker.select(k, memory, {.lambda = 1.7f, .quota = *rc::gen::element(0.0, 0.3, 1.0)});
  RC_ASSERT(picks.size() <= k);
  RC_ASSERT(std::ranges::adjacent_find(picks.indices, std::greater_equal{}) == picks.indices.end());
  auto after = worker.residual;
  for (std::size_t j = 0; j < picks.size(); ++j) {
    RC_ASSERT(after[picks.indices[j]] == 0);
    after[picks.indices[j]] = picks.values[j];
  }
  RC_ASSERT(after == before);
}

TEST(UnionMemory, IsTheSameAfterACheckpointAndRefusesAnotherModel) {
  for (const auto rule :
       {SelectionRule::hysteresis, SelectionRule::magnitude, SelectionRule::mask}) {
    const auto memory = memory_of(rule, {came_back({1, 5, 9}), came_back({4})});
    Payload state;
    base::ByteWriter writer(state);
    memory.save(writer);
    const auto loaded = [&](std::size_t numel, int shards) {
      UnionMemory out(rule);
      base::ByteReader reader(state, "memory");
      out.load(reader);
      reader.expect_end();
      out.begin(numel, shards);
      return out;
    };
    Payload again;
    base::ByteWriter rewriter(again);
    loaded(kNumel, 2).save(rewriter);
    EXPECT_EQ(again, state);
    EXPECT_THROW(loaded(kNumel, 3), WireError);
    EXPECT_THROW(loaded(3, 2), WireError);
  }
}

}  // namespace
}  // namespace thinwire::strategy
