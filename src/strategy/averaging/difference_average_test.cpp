#include "strategy/averaging/difference_average.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing/ranks.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

constexpr std::size_t kNumel = 1000;
constexpr unsigned kBits = 4;
constexpr float kLevels = 15;

float start(std::size_t element) { return std::sin(static_cast<float>(element)); }

float movement(int rank, std::size_t element) {
  const auto random =
      base::philox(3, static_cast<std::uint64_t>(rank), element, base::Purpose::test);
  return 0.01f * (base::unit_float(random[0]) - 0.5f);
}

struct Rank {
  std::vector<float> sent, mean, reference;
};

// Each rank has moved from the same start; all average once, in two parts.
std::vector<Rank> average_once(int ranks) {
  std::vector<Rank> out(static_cast<std::size_t>(ranks));
  test::on_ranks(ranks, [&](Transport& wire) {
    Rank& rank = out[static_cast<std::size_t>(wire.rank())];
    std::vector<float> model(kNumel);
    for (std::size_t i = 0; i < kNumel; ++i) model[i] = start(i);
    DifferenceAverage average(kBits);
    average.begin(model, 600, wire.size());
    for (std::size_t i = 0; i < kNumel; ++i) model[i] += movement(wire.rank(), i);
    rank.sent = model;
    rank.mean.resize(kNumel);
    const MutFloats sent = rank.sent, mean = rank.mean;
    EXPECT_TRUE(average.average(wire, 0, sent.first(600), mean.first(600)));
    EXPECT_TRUE(average.average(wire, 600, sent.subspan(600), mean.subspan(600)));
    rank.reference = average.reference();
  });
  return out;
}

TEST(DifferenceAverage, IsTheMeanOfWhatWasSentAndTheNextReference) {
  for (const int ranks : {2, 3, 4, 8}) {
    const auto all = average_once(ranks);
    for (std::size_t i = 0; i < kNumel; ++i) {
      double sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Rank& each = all[static_cast<std::size_t>(rank)];
        const float model = start(i) + movement(rank, i);
        EXPECT_LE(std::abs(each.sent[i] - model), 0.5f * 0.005f / kLevels + 1e-6f);
        sum += static_cast<double>(each.sent[i]);
      }
      EXPECT_NEAR(all[0].mean[i], sum / ranks, 1e-6);
    }
    for (const Rank& each : all) {
      EXPECT_EQ(each.mean, all[0].mean);
      EXPECT_EQ(each.reference, all[0].mean);
    }
  }
}

TEST(DifferenceAverage, RefusesModelsThatAreNotFiniteOnAllRanks) {
  test::on_ranks(3, [](Transport& wire) {
    std::vector<float> model(kNumel, 1.0f), mean(kNumel);
    DifferenceAverage average(kBits);
    average.begin(model, kNumel, wire.size());
    const std::vector<float> before = average.reference();
    if (wire.rank() == 1) model[17] = INFINITY;
    EXPECT_FALSE(average.average(wire, 0, model, mean));
    EXPECT_EQ(average.reference(), before);
  });
}

TEST(DifferenceAverage, RefusesAReferenceOfAnotherModel) {
  DifferenceAverage average(kBits);
  average.restore(std::vector<float>(kNumel - 1));
  EXPECT_THROW(average.begin(std::vector<float>(kNumel), kNumel, 2), WireError);
}

}  // namespace
}  // namespace thinwire::strategy
