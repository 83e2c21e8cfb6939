// qsgd against its definition, one number at a time, and the laws that follow from it.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "base/spec.h"
#include "collective/cost.h"
#include "kernel/bitpack.h"
#include "kernel/quantize_reference.h"
#include "strategy/quantized/quantization_keys.h"
#include "testing/allocations.h"
#include "testing/quantized_run.h"
#include "testing/ranks.h"
#include "testing/strategy_driver.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

using collective::CodeWidths;
using collective::Quantization;
using kernel::kTile;

// --- The definition.

struct Definition {
  Quantization quantization;
  std::uint64_t seed = 1, step = 0;
  bool rotated = true;  // else every rank has its own thresholds

  std::vector<float> mean(const test::Vectors& in) const {
    std::vector<float> out(in[0].size());
    const std::size_t bucket =
        quantization.bucket_tiles == 0 ? out.size() : quantization.bucket_tiles * kernel::kTile;
    for (std::size_t begin = 0; begin < out.size(); begin += bucket) {
      const std::size_t end = std::min(out.size(), begin + bucket);
      float norm = 0;
      for (const auto& vector : in) {
        for (std::size_t i = begin; i < end; ++i) norm = std::max(norm, std::fabs(vector[i]));
      }
      for (std::size_t i = begin; i < end; ++i) out[i] = element(in, i, norm);
    }
    return out;
  }

 private:
  float element(const test::Vectors& in, std::size_t i, float norm) const {
    const auto s = [&](std::size_t k) { return static_cast<float>(quantization.levels(k)); };
    std::size_t scale = 0;  // the finest that fits all
    for (std::size_t k = 1; k < quantization.bits.size(); ++k) {
      bool fits = true;
      for (const auto& vector : in) fits = fits && std::fabs(vector[i]) * (s(k) / norm) <= s(0);
      if (fits) scale = k;
    }
    const auto workers = static_cast<std::uint32_t>(in.size());
    double sum = 0;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      const auto turn = static_cast<std::uint16_t>((rank << 16) / workers);
      const kernel::Dither dither = {rotated ? seed : seed + rank, step,
                                     rotated ? turn : std::uint16_t{0}, false};
      const float u =
          (static_cast<float>(kernel::reference::threshold(dither, i)) + 0.5f) * 0x1.0p-16f;
      const float t = in[rank][i] * (s(scale) / norm), below = std::floor(t);
      const float q = below + std::floor((t - below) + u);
      sum += static_cast<double>(std::min(std::max(q, -s(0)), s(0)));
    }
    const auto step_size = static_cast<float>(
        static_cast<double>(norm) / (quantization.levels(scale) * static_cast<double>(workers)));
    return static_cast<float>(sum) * step_size;
  }
};

Quantization quantization_of(const std::string& spec_text) {
  base::Spec spec = base::Spec::parse(spec_text);
  return read_quantization(spec, "4096");
}

class QuantizedGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, QuantizedGroups, testing::ValuesIn(test::kGroupSizes));

// Small and large vectors take different routes; the bits are those of the definition on both.
TEST_P(QuantizedGroups, QsgdIsItsDefinitionBitForBit) {
  if (GetParam() == 1) return;
  for (const std::string spec :
       {"qsgd", "qsgd:bits=2", "qsgd:bits=8,bucket=whole", "qsgd:bits=1,bucket=256",
        "qsgd:scales=2+6", "qsgd:scales=2+4+6,bucket=whole"}) {
    for (const std::size_t rows : {12u, 400u}) {
      const test::StrategyRun run = test::matrix_run(spec, GetParam(), rows, rows < 100 ? 2 : 1);
      const auto records = test::run_strategy(run);
      for (std::uint64_t step = 0; step < run.steps; ++step) {
        const Definition definition{quantization_of(spec), 1, step};
        const std::vector<float> wanted = definition.mean(test::gradients_of(run, step));
        for (const test::RankRecord& record : records)
          ASSERT_EQ(record.grads[step], wanted) << spec << rows;
      }
    }
  }
}

// Shares have several pieces, and tiles and buckets end with the vector or before its end.
TEST(Qsgd, IsItsDefinitionAtEverySize) {
  for (const std::size_t numel : {1024u, 1025u, 4095u, 4096u, 4097u, 8191u, 450'001u}) {
    test::StrategyRun run = test::matrix_run("qsgd", 2, 1, 1);
    run.numel = numel;
    run.shape = {1, numel};
    const Definition definition{quantization_of("qsgd"), 1, 0};
    EXPECT_EQ(test::run_strategy(run)[1].grads[0], definition.mean(test::gradients_of(run, 0)))
        << numel;
  }
}

TEST_P(QuantizedGroups, QsgdSendsTheBytesOfItsWidths) {
  const int workers = GetParam();
  if (workers == 1) return;
  for (const unsigned bits : {2u, 4u, 6u}) {
    test::StrategyRun run = test::matrix_run("qsgd:bits=" + std::to_string(bits), workers, 3000, 1);
    run.gradient = [](int, std::uint64_t, std::size_t i) { return static_cast<float>(i % 7); };
    const auto records = test::run_strategy(run);
    const std::size_t tiles = (run.numel + kernel::kTile - 1) / kernel::kTile,
                      norms = (tiles + 15) / 16 + 1;
    const auto sum_bits = static_cast<unsigned>(
        std::bit_width(2u * ((1u << bits) - 1) * static_cast<unsigned>(workers)));
    for (int rank = 0; rank < workers; ++rank) {
      const std::size_t own = share_of(tiles, rank, workers).size();
      const std::uint64_t narrow = (tiles - own) * kernel::packed_bytes(bits + 1);
      const std::uint64_t wide =
          own * kernel::packed_bytes(sum_bits) * static_cast<std::uint64_t>(workers - 1);
      EXPECT_EQ(records[static_cast<std::size_t>(rank)].bytes_sent,
                allreduce_bytes(norms, rank, workers) + narrow + wide)
          << bits;
    }
  }
}

TEST(Qsgd, MasksOfFinerScalesTravelAsBits) {
  const auto bytes = [](const std::string& spec) {
    return test::run_strategy(test::matrix_run(spec, 4, 7000, 1))[0].bytes_sent;
  };
  const std::size_t words = (700'000 + kernel::kTile - 1) / kernel::kTile * kernel::kFitWords;
  const std::uint64_t mask = allreduce_bytes(words, 0, 4, Route::automatic, 8);
  EXPECT_EQ(bytes("qsgd:scales=4+8"), bytes("qsgd") + mask);
  EXPECT_EQ(bytes("qsgd:scales=4+8+12"),
            bytes("qsgd") + allreduce_bytes(2 * words, 0, 4, Route::automatic, 8));
}

// --- Statistics. They depend only on the seed, so that the tests are deterministic.

double squared_error(const std::vector<float>& found, const test::Vectors& in) {
  double error = 0, total = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double mean = 0;
    for (const auto& vector : in) mean += vector[i];
    mean /= static_cast<double>(in.size());
    error += (found[i] - mean) * (found[i] - mean);
    total += mean * mean;
  }
  return error / total;
}

TEST(Qsgd, IsRightOnAverage) {
  constexpr std::uint64_t kSteps = 400;
  for (const std::string spec : {"qsgd:bits=2", "qsgd:scales=2+6"}) {
    test::StrategyRun run = test::matrix_run(spec, 3, 12, kSteps);
    run.gradient = [](int rank, std::uint64_t, std::size_t i) {
      return test::wide_gradient(rank, 0, i);
    };
    const auto records = test::run_strategy(run);
    const test::Vectors in = test::gradients_of(run, 0);
    float norm = 0;
    for (const auto& vector : in) {
      for (const float x : vector) norm = std::max(norm, std::fabs(x));
    }
    // One rounding has at most the variance step^2 / 4, and so has the mean of several.
    const double sigma = static_cast<double>(norm) / 3 / 2 / std::sqrt(kSteps);
    for (std::size_t i = 0; i < run.numel; ++i) {
      double average = 0, wanted = 0;
      for (const auto& step : records[0].grads) average += step[i] / static_cast<double>(kSteps);
      for (const auto& vector : in) wanted += vector[i] / 3.0;
      ASSERT_NEAR(average, wanted, 4.5 * sigma) << spec << " " << i;
    }
  }
}

TEST(Qsgd, ThresholdsThatAreTurnedBeatIndependentOnes) {
  for (const float agreement : {0.0f, 0.9f}) {
    test::StrategyRun run = test::matrix_run("qsgd:bits=3", 8, 100, 1);
    run.gradient = [=](int rank, std::uint64_t, std::size_t i) {
      const auto uniform = [&](std::uint64_t of) {
        return 2 * base::unit_float(base::philox(6, of, i, base::Purpose::test)[0]) - 1;
      };
      return agreement * uniform(99) + (1 - agreement) * uniform(static_cast<std::uint64_t>(rank));
    };
    const test::Vectors in = test::gradients_of(run, 0);
    Definition independent{quantization_of("qsgd:bits=3"), 1, 0, false};
    EXPECT_LT(squared_error(test::run_strategy(run)[0].grads[0], in),
              0.75 * squared_error(independent.mean(in), in));
  }
}

// The largest values of their bucket need the coarse scale. The bias is sent separately, and the
// zeros in its place do not affect the scales.
TEST(Qsgd, CountsAsFineOnlyWhatItRounds) {
  test::StrategyRun run;
  run.spec = "qsgd:scales=2+6";
  run.numel = 3010;
  run.tensors = {{"weight", 0, {60, 50}}, {"bias", 3000, {10}}};
  run.gradient = [](int, std::uint64_t, std::size_t i) { return i % 2 == 0 ? 1.0f : -1.0f; };
  EXPECT_EQ(metric(test::run_strategy(run), "fine_share"), 0);
}

// --- Odd values.

TEST(Qsgd, AnOutlierHarmsItsBucketAlone) {
  test::StrategyRun run = test::matrix_run("qsgd", 4, 100, 1);
  run.gradient = [](int rank, std::uint64_t step, std::size_t i) {
    return i == 17 && rank == 2 ? 1e30f : test::wide_gradient(rank, step, i);
  };
  const auto result = test::run_strategy(run)[0].grads[0];
  const test::Vectors in = test::gradients_of(run, 0);
  for (std::size_t i = 0; i < run.numel; ++i) {
    ASSERT_TRUE(std::isfinite(result[i]));
    double mean = 0;
    for (const auto& vector : in) mean += vector[i] / 4;
    ASSERT_TRUE(i < 4096 || std::abs(result[i] - mean) <= 1.0 / 15);
  }
  EXPECT_NEAR(result[17], 0.25e30, 1e29);
}

TEST(Qsgd, TinyZeroAndHugeNormsStayFinite) {
  for (const int workers : {2, 3})
    for (const float size : {0.0f, 1e-45f, 1e-38f, 1e-30f, std::numeric_limits<float>::max()}) {
      for (const std::string spec :
           {"qsgd", "qsgd:scales=4+8", "qsgd:bits=1,bucket=whole", "qsgd:bits=9"}) {
        test::StrategyRun run = test::matrix_run(spec, workers, 60, 1);
        run.gradient = [=](int, std::uint64_t, std::size_t i) { return i % 2 == 0 ? size : -size; };
        const Quantization quantization = quantization_of(spec);
        const auto finest = static_cast<float>(quantization.levels(quantization.bits.size() - 1));
        const auto records = test::run_strategy(run);
        EXPECT_FALSE(records[0].skipped[0]);
        for (std::size_t i = 0; i < run.numel; ++i) {
          // All elements are equal to the norm, so that they are sent exactly, up to the last bits;
          // or as 0, if the finest step of a float has no inverse.
          const float wanted = std::isfinite(finest / size) ? run.gradient(0, 0, i) : 0;
          ASSERT_NEAR(records[0].grads[0][i], wanted, 2e-7 * static_cast<double>(size));
          ASSERT_TRUE(std::isfinite(records[0].grads[0][i]));
        }
      }
    }
}

TEST(Quantized, WhatIsNotFiniteAnywhereSkipsTheStepEverywhereAndChangesNothing) {
  for (const std::string spec : {"qsgd", "grandk:density=0.1"}) {
    for (const float poison :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      test::StrategyRun run = test::matrix_run(spec, 3, 100, 3);
      run.gradient = [=](int rank, std::uint64_t step, std::size_t i) {
        return step == 1 && rank == 1 && i == 7321 ? poison : test::wide_gradient(rank, step, i);
      };
      test::StrategyRun shorter = run;
      shorter.steps = 1;
      const auto before = test::run_strategy(shorter), after = test::run_strategy([&] {
                                                         test::StrategyRun two = run;
                                                         two.steps = 2;
                                                         return two;
                                                       }());
      for (std::size_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(after[rank].skipped, (std::vector<bool>{false, true}));
        EXPECT_EQ(after[rank].state, before[rank].state);
      }
    }
  }
}

TEST(Quantized, OneWorkerIsPlain) {
  for (const std::string spec : {"qsgd", "grandk"}) {
    const test::StrategyRun run = test::matrix_run(spec, 1, 20, 2);
    const auto records = test::run_strategy(run);
    EXPECT_EQ(records[0].grads[1], test::gradients_of(run, 1)[0]);
    EXPECT_EQ(records[0].bytes_sent, 0u);
  }
}

TEST(Qsgd, SmallTensorsAreExact) {
  test::StrategyRun run = test::matrix_run("qsgd", 4, 8, 1);  // 800 elements
  run.gradient = test::grid_gradient;
  test::StrategyRun dense = run;
  dense.spec = "dense";
  EXPECT_EQ(test::run_strategy(run)[0].grads, test::run_strategy(dense)[0].grads);
}

TEST(Quantized, NothingIsAllocatedAfterTheFirstStep) {
  for (const std::string spec : {"qsgd", "qsgd:scales=4+8", "grandk:density=0.05,warmup=none"}) {
    JoinOptions options;
    options.size = 3;
    run_workers("threads", options, [&](Transport& wire) {
      const Layout layout{{{"w", 0, {640, 100}}, {"b", 64'000, {30}}}, 64'030};
      std::vector<float> params(layout.numel), grads(layout.numel);
      test::StrategyDriver driver(wire, spec, layout);
      driver.begin(params);
      while (driver.step() < 4) {
        const std::uint64_t step = driver.step();
        for (std::size_t i = 0; i < grads.size(); ++i) {
          grads[i] = test::wide_gradient(wire.rank(), step, i);
        }
        const std::uint64_t before = test::allocations();
        driver.exchange(grads, params);
        EXPECT_TRUE(step == 0 || test::allocations() == before) << spec;
      }
    });
  }
}

// --- Lanes.

TEST(Lanes, NeverCarryForAnyNumberOfWorkersThatIsAccepted) {
  for (unsigned bits = 1; bits <= 12; ++bits) {
    Quantization quantization;
    quantization.bits = {bits};
    const std::uint64_t codes = 2 * quantization.levels(0);
    int largest = 0;
    for (int workers = 1; workers <= 1 << 22;
         workers = workers < 40 ? workers + 1 : workers * 5 / 4) {
      try {
        const CodeWidths widths = code_widths(quantization, workers);
        EXPECT_LT(codes, 1u << widths.code_bits);
        EXPECT_LT(codes * static_cast<std::uint64_t>(workers), 1u << widths.sum_bits);
        EXPECT_LE(widths.sum_bits, kernel::kWidestCode);
        largest = workers;
      } catch (const ConfigError& error) {
        EXPECT_GE(codes * static_cast<std::uint64_t>(workers), 1u << kernel::kWidestCode);
        EXPECT_NE(std::string(error.what()).find("fewer workers"), std::string::npos);
      }
    }
    EXPECT_GE(largest, 1000);
  }
}

TEST(Lanes, AllCodesAtTheirHighestAddUp) {
  for (const int workers : {2, 3, 4, 8, 17, 33}) {
    for (const std::string spec : {"qsgd:bits=1", "qsgd", "qsgd:bits=8"}) {
      for (const float sign : {1.0f, -1.0f}) {
        test::StrategyRun run = test::matrix_run(spec, workers, 30, 1);
        run.gradient = [=](int, std::uint64_t, std::size_t) { return sign; };
        const auto records = test::run_strategy(run);
        for (const float x : records[0].grads[0]) ASSERT_NEAR(x, sign, 1e-6);
      }
    }
  }
}

TEST(Quantization, RefusesScalesAndBucketsThatMakeNoSense) {
  for (const std::string spec :
       {"qsgd:scales=8+4", "qsgd:scales=4", "qsgd:scales=4+x", "qsgd:scales=1+2+3+4+5",
        "qsgd:bucket=100", "qsgd:bucket=0", "qsgd:bits=13", "qsgd:bits=2,scales=4+8",
        "qsgd:scales=4+17", "grandk:feedback=off", "grandk:feedback=on", "grandk:density=0"}) {
    EXPECT_THROW(make_strategy(spec), ConfigError) << spec;
  }
}

}  // namespace
}  // namespace thinwire::strategy
