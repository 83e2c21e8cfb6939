// The laws of PowerSGD.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "strategy/common/state.h"
#include "strategy/lowrank/divergence_state.h"
#include "strategy/lowrank/low_rank.h"
#include "strategy/lowrank/rank_schedule.h"
#include "testing/allocations.h"
#include "testing/ranks.h"
#include "testing/strategy_driver.h"
#include "testing/strategy_run.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

constexpr float kUnit = 0x1.0p-24f;  // a rounding moves a float by this share of it, at most

struct Range {
  std::size_t begin, end;
};
constexpr Range kFirst{0, 1200}, kBias{1200, 1240}, kSecond{1240, 2240}, kSmall{2240, 2249};

// Returns a run with two matrices that are compressed, a bias, and a matrix that is too small to be
// compressed.
test::StrategyRun layers(const std::string& spec, int workers = 3) {
  test::StrategyRun run;
  run.spec = spec;
  run.workers = workers;
  run.tensors = {{"first", kFirst.begin, {40, 30}},
                 {"bias", kBias.begin, {40}},
                 {"second", kSecond.begin, {20, 5, 2, 5}},
                 {"small", kSmall.begin, {3, 3}}};
  run.numel = kSmall.end;
  return run;
}

Layout layout_of(const test::StrategyRun& run) { return {run.tensors, run.numel}; }

// Returns the error memory of one rank, for all elements of the flat buffers; 0 for elements that
// are not compressed.
std::vector<float> held_back(const test::StrategyRun& run, const test::RankRecord& record,
                             std::size_t rank) {
  const std::vector<float> errors = test::residual_of(record);
  std::vector<float> out(run.numel, 0.0f);
  for (const LowRankTensor& matrix : low_rank_layout(layout_of(run), rank).matrices) {
    std::copy_n(errors.begin() + static_cast<std::ptrdiff_t>(matrix.error), matrix.shape.numel(),
                out.begin() + static_cast<std::ptrdiff_t>(matrix.gradient));
  }
  return out;
}

std::vector<float> part(const std::vector<float>& values, Range range) {
  return {values.begin() + static_cast<std::ptrdiff_t>(range.begin),
          values.begin() + static_cast<std::ptrdiff_t>(range.end)};
}

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

void expect_agreement(const std::vector<test::RankRecord>& records) {
  for (const test::RankRecord& record : records) {
    for (std::size_t step = 0; step < record.grads.size(); ++step) {
      ASSERT_TRUE(test::same_bits(record.grads[step], records[0].grads[step])) << step;
    }
  }
}

// The sum of all gradients is P times the applied updates plus the error memories, up to rounding.
// With column norms of M of at most N, |Q| is at most N, and a step rounds, for each worker, g + e
// and the new error (2 N), the sum that is sent (2 r N) and the one that is applied (2 r N), and
// the mean of Q, a sum of P (P r N), by kUnit each.
void expect_conservation(const test::StrategyRun& run, const std::vector<test::RankRecord>& records,
                         std::size_t rank) {
  std::vector<double> balance(run.numel, 0);
  double most = 0;
  for (std::uint64_t step = 0; step < run.steps; ++step) {
    for (std::size_t i = 0; i < run.numel; ++i) {
      balance[i] -= static_cast<double>(records[0].grads[step][i]) * run.workers;
      for (int worker = 0; worker < run.workers; ++worker) {
        const auto gradient = static_cast<double>(run.gradient(worker, step, i));
        balance[i] += gradient;
        most = std::max(most, std::abs(gradient));
      }
    }
  }
  for (const test::RankRecord& record : records) {
    const auto held = held_back(run, record, rank);
    for (std::size_t i = 0; i < run.numel; ++i) {
      balance[i] -= static_cast<double>(held[i]);
      most = std::max(most, std::abs(static_cast<double>(held[i])));
    }
  }
  const double workers = run.workers, r = static_cast<double>(rank);
  const double column = 2 * most * std::sqrt(40.0);  // M = g + e, 40 rows
  const double allowed = static_cast<double>(run.steps) * workers * (2 + 4 * r + workers * r) *
                         column * static_cast<double>(kUnit);
  for (std::size_t i = 0; i < run.numel; ++i) ASSERT_LE(std::abs(balance[i]), allowed) << i;
  EXPECT_LE(allowed, 0.005 * workers);  // a larger limit would make the law meaningless
}

class PowerSgdGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, PowerSgdGroups, testing::ValuesIn(test::kGroupSizes));

TEST_P(PowerSgdGroups, AgreeAndConserveEveryStep) {
  if (GetParam() == 1) return;
  for (const std::size_t rank : {1u, 2u, 4u}) {
    const test::StrategyRun run = layers(fmt::format("powersgd:start=1,rank={}", rank), GetParam());
    const auto records = test::run_strategy(run);
    expect_agreement(records);
    expect_conservation(run, records, rank);
  }
}

TEST_P(PowerSgdGroups, SendTheBytesOfTheFormula) {
  const int size = GetParam();
  const test::StrategyRun run = layers("powersgd:start=0,rank=2", size);
  const auto records = test::run_strategy(run);
  constexpr std::size_t kRank = 2, p = kRank * (40 + 20), q = kRank * (30 + 50), exact = 40 + 9;
  for (int rank = 0; rank < size; ++rank) {
    const std::uint64_t once =
        allreduce_bytes(p + exact, rank, size) + allreduce_bytes(q, rank, size);
    EXPECT_EQ(records[static_cast<std::size_t>(rank)].bytes_sent, run.steps * once);
  }
}

RC_GTEST_PROP(PowerSgdProperty, AgreesOnAnyLayout, ()) {
  test::StrategyRun run;
  run.workers = *rc::gen::inRange(2, 10);
  run.spec = fmt::format("powersgd:start=0,rank={}", *rc::gen::inRange(1, 33));
  run.numel = 0;
  for (int tensors = *rc::gen::inRange(1, 5); tensors > 0; --tensors) {
    const auto rows = *rc::gen::inRange<std::size_t>(1, 90);
    const auto columns = *rc::gen::inRange<std::size_t>(1, 90);
    run.tensors.push_back({"tensor", run.numel, {rows, columns}});
    run.numel += rows * columns;
  }
  // Few distinct values: matrices that vanish and others of low rank.
  const auto spread = *rc::gen::inRange(1u, 4u);
  const auto rare = *rc::gen::inRange(1u, 2000u);
  run.gradient = [=](int worker, std::uint64_t step, std::size_t element) {
    const auto block =
        base::philox(5, step << 16 | std::uint64_t(worker), element, base::Purpose::test);
    return block[0] % rare == 0 ? static_cast<float>(block[1] % spread) - 1 : 0.0f;
  };
  const auto records = test::run_strategy(run);
  for (const test::RankRecord& record : records) {
    RC_ASSERT(record.grads == records[0].grads);
    RC_ASSERT(record.skipped == std::vector<bool>(run.steps, false));
  }
}

TEST(PowerSgd, OneWorkerIsLeftAlone) {
  test::StrategyRun run = layers("powersgd:rank=1,start=0", 1);
  run.gradient = [](int rank, std::uint64_t step, std::size_t element) {
    if (step == 1 && element == 7) return std::numeric_limits<float>::infinity();
    return test::grid_gradient(rank, step, element);
  };
  const auto records = test::run_strategy(run);
  for (std::size_t i = 0; i < run.numel; ++i) {
    ASSERT_EQ(records[0].grads[2][i], test::grid_gradient(0, 2, i));
  }
  EXPECT_EQ(records[0].skipped, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(records[0].bytes_sent, 0u);
}

TEST(PowerSgd, IsDenseUntilItStarts) {
  test::StrategyRun run = layers("powersgd:rank=1,start=2", 5);
  test::StrategyRun dense = layers("dense", 5);
  run.gradient = dense.gradient = [](int rank, std::uint64_t step, std::size_t element) {
    return test::grid_gradient(rank, step, element) * 0.3f;  // sums that depend on their order
  };
  const auto records = test::run_strategy(run), means = test::run_strategy(dense);
  EXPECT_TRUE(test::same_bits(records[0].grads[0], means[0].grads[0]));
  EXPECT_TRUE(test::same_bits(records[0].grads[1], means[0].grads[1]));
  EXPECT_NE(records[0].grads[2], means[0].grads[2]);
}

TEST(PowerSgd, IsDenseWithoutMatrices) {
  test::StrategyRun run;
  run.spec = "powersgd:rank=1,start=0";
  run.workers = 3;
  test::StrategyRun dense = run;
  dense.spec = "dense";
  const auto records = test::run_strategy(run), means = test::run_strategy(dense);
  EXPECT_EQ(records[0].grads, means[0].grads);
  EXPECT_EQ(records[0].bytes_sent, means[0].bytes_sent);
}

TEST(PowerSgd, SmallTensorsAreTheMean) {
  for (const int workers : {2, 3, 7, 16}) {
    const auto records = test::run_strategy(layers("powersgd:rank=1,start=0", workers));
    const auto means = test::run_strategy(layers("dense", workers));
    for (std::size_t step = 0; step < 3; ++step) {
      for (const Range range : {kBias, kSmall}) {
        EXPECT_EQ(part(records[0].grads[step], range), part(means[0].grads[step], range));
      }
    }
  }
}

// Element `element` of the sum of `rank` products of two vectors.
float low_rank_element(std::size_t element, std::size_t columns, std::size_t rank) {
  float sum = 0;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::size_t row = element / columns, column = element % columns;
    sum += (2 * base::unit_float(base::philox(7, k, row, base::Purpose::test)[0]) - 1) *
           (2 * base::unit_float(base::philox(8, k, column, base::Purpose::test)[0]) - 1);
  }
  return sum;
}

TEST(PowerSgd, ReproducesAMatrixOfItsRank) {
  for (const std::size_t rank : {1u, 2u, 4u}) {
    for (const float scale : {1.0f, 1e-25f, 1e25f}) {
      test::StrategyRun run = layers(fmt::format("powersgd:start=0,rank={}", rank), 4);
      run.steps = 5;
      run.gradient = [&](int, std::uint64_t, std::size_t element) {
        if (element >= kBias.begin && element < kBias.end) return 0.0f;
        const bool first = element < kFirst.end;
        return scale * (first ? low_rank_element(element, 30, rank)
                              : low_rank_element(element - kSecond.begin, 50, rank));
      };
      const auto records = test::run_strategy(run);
      expect_agreement(records);
      for (std::uint64_t step = 0; step < run.steps; ++step) {
        std::vector<float> missed(run.numel);
        for (std::size_t i = 0; i < run.numel; ++i) {
          missed[i] = (records[0].grads[step][i] - run.gradient(0, step, i)) / scale;
        }
        EXPECT_LE(norm(part(missed, kFirst)), 1e-4) << "rank " << rank << ", step " << step;
        EXPECT_LE(norm(part(missed, kSecond)), 1e-4) << "rank " << rank << ", step " << step;
      }
    }
  }
}

// The error memory of a worker is the difference between its matrix and the product with its own
// vectors, which is orthogonal to the applied update. With the mean of the vectors, it would also
// contain, and send again, the difference between this worker and the others.
TEST(PowerSgd, HoldsBackNothingAlongWhatWasSent) {
  test::StrategyRun run = layers("powersgd:start=0,rank=2", 3);
  const auto records = test::run_strategy(run);
  const auto applied = part(records[0].grads.back(), kFirst);
  for (const test::RankRecord& record : records) {
    const auto held = part(held_back(run, record, 2), kFirst);
    for (std::size_t a = 0; a < 30; ++a) {
      for (std::size_t h = 0; h < 30; ++h) {
        double along = 0;
        for (std::size_t row = 0; row < 40; ++row) {
          along +=
              static_cast<double>(applied[row * 30 + a]) * static_cast<double>(held[row * 30 + h]);
        }
        ASSERT_NEAR(along, 0, 1e-6 * norm(applied) * norm(held));
      }
    }
  }
}

TEST(PowerSgd, NothingWaitsForever) {
  test::StrategyRun run = layers("powersgd:start=0,rank=1", 2);
  run.steps = 120;
  run.gradient = [](int rank, std::uint64_t, std::size_t element) {
    return test::grid_gradient(rank, 0, element);  // the same in every step, and of full rank
  };
  const auto records = test::run_strategy(run);
  std::vector<float> missed(run.numel, 0.0f), mean(run.numel);
  for (std::size_t i = 0; i < run.numel; ++i) {
    mean[i] = (run.gradient(0, 0, i) + run.gradient(1, 0, i)) / 2;
    double applied = 0;
    for (const auto& grads : records[0].grads) applied += static_cast<double>(grads[i]);
    missed[i] = static_cast<float>(applied / static_cast<double>(run.steps)) - mean[i];
  }
  EXPECT_LE(norm(missed), 0.2 * norm(mean));
  EXPECT_GT(records[0].stats.residual_ratio, 1);  // it takes about as many steps as M has ranks
  EXPECT_LT(records[0].stats.residual_ratio, 40);
}

TEST(PowerSgd, MatricesOfLessThanItsRankAndOfZeros) {
  for (const std::size_t rank : {0u, 1u, 2u}) {
    test::StrategyRun run = layers("powersgd:start=0,rank=4", 3);
    run.steps = 6;
    run.gradient = [&](int, std::uint64_t, std::size_t element) {
      return element < kFirst.end ? low_rank_element(element, 30, rank) : 0.0f;
    };
    const auto records = test::run_strategy(run);
    expect_agreement(records);
    for (const auto& grads : records[0].grads) {
      for (std::size_t i = 0; i < run.numel; ++i) {
        ASSERT_NEAR(grads[i], run.gradient(0, 0, i), 1e-5) << "rank " << rank;
      }
      for (std::size_t i = kFirst.end; i < run.numel; ++i) ASSERT_EQ(grads[i], 0);
    }
    // Of the second matrix all vectors, of the first those that are not made of rounding errors.
    EXPECT_GE(metric(records, "replaced_vectors"), rank == 0 ? 1 : 0.5);
    EXPECT_LE(metric(records, "replaced_vectors"), (8 - static_cast<double>(rank)) / 8);
  }
}

TEST(PowerSgd, ContinuesAfterAGradientThatVanished) {
  test::StrategyRun run = layers("powersgd:start=0,rank=2", 3);
  run.steps = 6;
  run.gradient = [](int rank, std::uint64_t step, std::size_t element) {
    return step < 2 ? 0.0f : test::grid_gradient(rank, step, element);
  };
  const auto records = test::run_strategy(run);
  expect_agreement(records);
  expect_conservation(run, records, 2);
  EXPECT_EQ(norm(records[0].grads[1]), 0);
  EXPECT_GT(norm(records[0].grads[2]), 0);
}

TEST(PowerSgd, ANonFiniteGradientIsSeenByAllAndLeavesNoTrace) {
  const float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t where :
         {std::size_t{17}, kBias.begin + 3, kSecond.end - 1, kSmall.begin}) {
      test::StrategyRun run = layers("powersgd:start=0,rank=2", 3);
      const auto before = test::run_strategy(run);
      run.steps = 4;
      run.gradient = [=](int rank, std::uint64_t step, std::size_t element) {
        return step == 3 && rank == 1 && element == where
                   ? bad
                   : test::grid_gradient(rank, step, element);
      };
      const auto after = test::run_strategy(run);
      for (std::size_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(after[rank].skipped, (std::vector<bool>{false, false, false, true})) << where;
        EXPECT_EQ(after[rank].state, before[rank].state) << where;
      }
    }
  }
}

// P is finite, but Q is not.
TEST(PowerSgd, ASumThatOverflowsIsSkippedByAllAndLeavesNoTrace) {
  test::StrategyRun run = layers("powersgd:rank=1,start=0", 4);
  const auto before = test::run_strategy(run);
  run.steps = 5;
  run.gradient = [](int rank, std::uint64_t step, std::size_t element) {
    if (step >= 3) return element == 17 ? 3e38f : 0.0f;
    return test::grid_gradient(rank, step, element);
  };
  const auto after = test::run_strategy(run);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(after[rank].skipped, (std::vector<bool>{false, false, false, true, true}));
    EXPECT_EQ(after[rank].state, before[rank].state);
  }
}

TEST(PowerSgd, GoesOnFromItsSavedState) {
  for (const char* spec :
       {"powersgd:start=0,rank=2", "powersgd:rank=1,start=2", "powersgd:rank=1,start=5"}) {
    test::StrategyRun run = layers(spec);
    run.steps = 8;
    const auto whole = test::run_strategy(run);
    run.steps = 3;
    const auto first = test::run_strategy(run);
    std::vector<Payload> states;
    for (const test::RankRecord& record : first) states.push_back(record.state);
    run.steps = 8;
    const auto second = test::run_strategy(run, states.data(), 3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(second[rank].state, whole[rank].state) << spec;
      for (std::size_t step = 3; step < 8; ++step) {
        EXPECT_TRUE(test::same_bits(second[rank].grads[step - 3], whole[rank].grads[step])) << spec;
      }
    }
  }
}

TEST(PowerSgd, RefusesAStateThatIsNotItsOwn) {
  test::StrategyRun run = layers("powersgd:rank=1,start=0", 2);
  const Payload good = test::run_strategy(run)[0].state;
  const auto load = [](Bytes state) { make_strategy("powersgd:rank=1")->load(state); };
  for (std::size_t length = 0; length < good.size(); length += 97) {
    EXPECT_THROW(load(Bytes(good).first(length)), WireError) << length;
  }
  Payload longer = good;
  longer.push_back(std::byte{0});
  EXPECT_THROW(load(longer), WireError);
  Payload other = good;
  other[0] = std::byte{99};
  EXPECT_THROW(load(other), WireError);
  Payload half;
  base::ByteWriter writer(half);
  writer.put(std::uint32_t{3});
  put_floats(writer, std::vector<float>(10));
  put_floats(writer, {});
  writer.put(std::uint32_t{1});  // rank at the start, and now
  writer.put(std::uint32_t{1});
  writer.put(0.0f);
  writer.put(std::uint32_t{0});
  writer.put(std::uint64_t{0});
  writer.put(std::uint64_t{0});
  DivergenceState().save(writer);
  EXPECT_THROW(load(half), WireError);

  const std::vector<Payload> states(2, good);
  EXPECT_NO_THROW(test::run_strategy(run, states.data()));
  run.spec = "powersgd:start=0,rank=2";  // other vectors
  EXPECT_THROW(test::run_strategy(run, states.data()), WireError);
  run.spec = "powersgd:rank=1,start=0";
  run.tensors[0].shape = {30, 40};
  EXPECT_THROW(test::run_strategy(run, states.data()), WireError);
  run.tensors[0].shape = {1200};
  EXPECT_THROW(test::run_strategy(run, states.data()), WireError);
}

TEST(PowerSgd, DrawsFromTheSeedOfTheRun) {
  test::StrategyRun run = layers("powersgd:rank=1,start=0");
  const auto one = test::run_strategy(run)[0].grads, again = test::run_strategy(run)[0].grads;
  run.options.seed = 2;
  EXPECT_EQ(one, again);
  EXPECT_NE(one, test::run_strategy(run)[0].grads);
}

TEST(PowerSgd, AllocatesNothingAfterTheFirstStep) {
  for (const int workers : {4, 5}) {
    test::on_ranks(workers, [&](Transport& wire) {
      const Layout layout = layout_of(layers(""));
      std::vector<float> grads(layout.numel), params(layout.numel);
      test::StrategyDriver driver(wire, "powersgd:start=0,rank=3", layout);
      driver.begin(params);
      while (driver.step() < 20) {
        const std::uint64_t step = driver.step();
        for (std::size_t i = 0; i < grads.size(); ++i) {
          grads[i] = step % 5 == 4 ? 0 : test::grid_gradient(wire.rank(), step, i);
        }
        const std::uint64_t before = test::allocations();
        driver.exchange(grads, params);
        if (step > 0) {
          EXPECT_EQ(test::allocations() - before, 0u) << step;
        }
      }
    });
  }
}

TEST(PowerSgd, SaysWhatItSaves) {
  const auto records = test::run_strategy(layers("powersgd:rank=1,start=0", 4));
  double dense = 0, sent = 0;
  for (int rank = 0; rank < 4; ++rank) {
    dense += static_cast<double>(allreduce_bytes(2249, rank, 4));
    sent += static_cast<double>(allreduce_bytes(60 + 49, rank, 4) + allreduce_bytes(80, rank, 4));
  }
  EXPECT_DOUBLE_EQ(metric(records, "compression"), dense / sent);
  EXPECT_DOUBLE_EQ(metric(records, "compressed_share"), 2200.0 / 2249);
  EXPECT_EQ(metric(records, "replaced_vectors"), 0);
}

TEST(PowerSgd, RefusesRanksAndStartsOutOfRange) {
  for (const char* spec : {"powersgd:rank=0", "powersgd:rank=33", "powersgd:start=-1",
                           "powersgd:rank=1.5", "powersgd:rank=none", "powersgd:start="}) {
    EXPECT_THROW(make_strategy(spec), ConfigError) << spec;
  }
  EXPECT_NO_THROW(make_strategy("powersgd:rank=32,start=1000000000"));
  EXPECT_NO_THROW(make_strategy("powersgd:rank=auto,start=auto"));
}

// Returns a run with one matrix that takes less than 8 % of the bytes of dense at rank 2, but not
// at rank 4, and one that is not compressed at rank 2. The gradients grow and have full rank.
test::StrategyRun growing_run(const std::string& spec) {
  test::StrategyRun run;
  run.spec = spec;
  run.workers = 3;
  run.tensors = {{"large", 0, {90, 80}}, {"small", 7200, {5, 6}}};
  run.numel = 7230;
  run.steps = 60;
  run.gradient = [](int rank, std::uint64_t step, std::size_t element) {
    return test::grid_gradient(rank, 0, element) * std::pow(1.03f, static_cast<float>(step));
  };
  return run;
}

TEST(PowerSgd, ARankRisesWhileTheErrorsGrowAndNothingIsLost) {
  test::StrategyRun run = growing_run("powersgd:rank=1,start=0");
  run.steps = 32;  // until the next observation, which would find that the rank cannot rise further
  const auto records = test::run_strategy(run);
  expect_agreement(records);
  EXPECT_EQ(metric(records, "rank"), 2);
  double worst = 0, most = 0;
  std::vector<double> balance(run.numel, 0);
  for (std::size_t i = 0; i < run.numel; ++i) {
    for (std::uint64_t step = 0; step < run.steps; ++step) {
      balance[i] -= 3.0 * static_cast<double>(records[0].grads[step][i]);
      for (int rank = 0; rank < 3; ++rank) {
        balance[i] += static_cast<double>(run.gradient(rank, step, i));
      }
    }
    for (const auto& record : records) {
      const auto held = static_cast<double>(test::residual_of(record)[i]);
      balance[i] -= held;
      most = std::max(most, std::abs(held));
    }
    worst = std::max(worst, std::abs(balance[i]));
  }
  EXPECT_LE(worst, 1e-4 * most);
  for (std::size_t i = 7200; i < run.numel; ++i) {
    EXPECT_EQ(test::residual_of(records[0])[i], 0) << "sent as it is since the rank rose";
  }
}

TEST(PowerSgd, ARaisedRankContinuesFromItsSavedState) {
  test::StrategyRun run = growing_run("powersgd:rank=1,start=0");
  const auto whole = test::run_strategy(run);
  for (const std::uint64_t until : {20u, 41u, 50u}) {
    run.steps = until;
    const auto first = test::run_strategy(run);
    std::vector<Payload> states;
    for (const test::RankRecord& record : first) states.push_back(record.state);
    run.steps = 60;
    const auto second = test::run_strategy(run, states.data(), until);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(second[rank].state, whole[rank].state) << until;
    }
  }
}

TEST(PowerSgd, AnAutomaticRankDependsOnTheLengthOfTheRun) {
  const auto rank_of = [](std::uint64_t steps, std::vector<std::size_t> shape) {
    test::StrategyRun run;
    run.spec = "powersgd";
    run.numel = shape[0] * shape[1];
    run.shape = std::move(shape);
    run.steps = 1;
    run.options.steps = steps;
    return metric(test::run_strategy(run), "rank");
  };
  EXPECT_EQ(rank_of(10'000, {400, 400}), 4);
  EXPECT_EQ(rank_of(188, {400, 400}), 8);
  EXPECT_EQ(rank_of(47, {400, 400}), 16);
  EXPECT_EQ(rank_of(47, {60, 60}), 8);  // a third of the bytes of dense, at most
  EXPECT_EQ(rank_of(47, {20, 20}), 2);
}

TEST(PowerSgd, IsDenseAndSaysSoWhereCompressionGainsLittle) {
  test::StrategyRun run = layers("powersgd:start=0", 2);
  run.tensors = {{"bias", 0, {2000}}, {"matrix", 2000, {10, 10}}};
  run.numel = 2100;
  test::StrategyRun dense = run;
  dense.spec = "dense";
  const auto records = test::run_strategy(run), means = test::run_strategy(dense);
  EXPECT_EQ(records[0].grads, means[0].grads);
  EXPECT_EQ(records[0].bytes_sent, means[0].bytes_sent);
  EXPECT_EQ(test::warnings_of(run).size(), 1u);
}

TEST(PowerSgd, StartsWithTheWarmUpOfTheLearningRate) {
  const auto start = [](std::uint64_t steps, std::uint64_t warmup) {
    RunOptions run;
    run.steps = steps;
    run.warmup_steps = warmup;
    return automatic_start(run);
  };
  EXPECT_EQ(start(1000, 0), 20u);
  EXPECT_EQ(start(1000, 50), 50u);
  EXPECT_EQ(start(1000, 500), 100u);
  EXPECT_EQ(start(10, 0), 1u);
  EXPECT_EQ(start(0, 0), 100u);
}

}  // namespace
}  // namespace thinwire::strategy
