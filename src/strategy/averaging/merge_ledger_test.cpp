#include "strategy/averaging/merge_ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "base/random.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

// Workers with a ledger each, and rounds that average their snapshots.
class Group {
 public:
  Group(std::size_t workers, std::size_t numel, std::uint64_t seed) : ledgers_(workers) {
    for (std::size_t w = 0; w < workers; ++w) {
      models_.emplace_back(numel);
      for (std::size_t i = 0; i < numel; ++i) {
        models_[w][i] = base::unit_float(base::philox(seed, w, i, base::Purpose::test)[0]) - 0.5f;
      }
      ledgers_[w].begin(models_[w]);
    }
  }

  // Executes a part of a round: the work of all background tasks on elements [begin, end).
  void take_snapshots(std::size_t begin, std::size_t end) {
    snapshots_.assign(models_.size(), std::vector<float>(end - begin));
    mean_.assign(end - begin, 0.0f);
    for (std::size_t w = 0; w < models_.size(); ++w) {
      ledgers_[w].snapshot(begin, snapshots_[w]);
      for (std::size_t i = 0; i < mean_.size(); ++i) mean_[i] += snapshots_[w][i];
    }
    for (float& value : mean_) value /= static_cast<float>(models_.size());
  }
  void hand_in(std::size_t begin) {
    for (std::size_t w = 0; w < models_.size(); ++w) ledgers_[w].add(begin, mean_, snapshots_[w]);
  }
  void move(std::size_t worker, float by) {
    for (float& value : models_[worker]) value += by;
    moved_ += by;
  }
  bool merge(std::size_t worker) { return ledgers_[worker].merge(models_[worker]); }
  void merge_all() {
    for (std::size_t w = 0; w < models_.size(); ++w) merge(w);
  }

  double sum(std::size_t element) const {
    double out = 0;
    for (const auto& model : models_) out += model[element];
    return out;
  }
  double moved() const { return moved_; }
  double spread() const {
    double most = 0;
    for (const auto& model : models_) {
      for (std::size_t i = 0; i < model.size(); ++i) {
        most = std::max(most, std::abs(static_cast<double>(model[i]) - models_[0][i]));
      }
    }
    return most;
  }
  std::vector<std::vector<float>>& models() { return models_; }
  MergeLedger& ledger(std::size_t worker) { return ledgers_[worker]; }

 private:
  std::vector<std::vector<float>> models_;
  std::vector<MergeLedger> ledgers_;
  std::vector<std::vector<float>> snapshots_;
  std::vector<float> mean_;
  double moved_ = 0;
};

TEST(MergeLedger, LocalStepsMadeDuringARoundSurvive) {
  Group group(4, 10, 1);
  const double before = group.sum(3);
  group.take_snapshots(0, 10);
  for (int step = 0; step < 5; ++step) {
    group.move(2, 1.0f);
    group.merge(2);
  }
  group.hand_in(0);
  group.merge_all();
  EXPECT_NEAR(group.sum(3), before + 5, 1e-5);
  EXPECT_NEAR(group.models()[2][3] - group.models()[0][3], 5, 1e-5) << "all of it is still there";
  group.take_snapshots(0, 10);
  group.hand_in(0);
  group.merge_all();
  EXPECT_LT(group.spread(), 1e-5) << "the next round shares it";
}

// Rounds follow each other, and one worker merges only after every seventh. If snapshots did not
// include the pending sum, the models would diverge.
TEST(MergeLedger, RoundsOverlapWithoutHarm) {
  Group group(8, 6, 2);
  const double before = group.sum(0);
  for (int round = 0; round < 80; ++round) {
    group.take_snapshots(0, 6);
    group.hand_in(0);
    for (std::size_t w = 1; w < 8; ++w) group.merge(w);
    if (round % 7 == 6) group.merge(0);
  }
  group.merge_all();
  EXPECT_LT(group.spread(), 1e-5);
  EXPECT_NEAR(group.sum(0), before, 1e-5);
}

// A merge moves a part of the pending sum, and a round corrects a part of the differences.
TEST(MergeLedger, PartsAddUpToTheWhole) {
  MergeLedger ledger;
  std::vector<float> model = {1, 2};
  ledger.begin(model);
  ledger.add(0, std::vector<float>{5, 2}, std::vector<float>{1, 2}, 0.5f);
  EXPECT_FALSE(ledger.merge(model, 0.25f));
  EXPECT_EQ(model, (std::vector<float>{1.5f, 2}));
  std::vector<float> snapshot(2);
  ledger.snapshot(0, snapshot);
  EXPECT_EQ(snapshot, (std::vector<float>{3, 2})) << "includes what is pending";
  ledger.merge(model);
  EXPECT_EQ(model, (std::vector<float>{3, 2}));
  EXPECT_EQ(ledger.pending(), (std::vector<float>{0, 0}));
}

TEST(MergeLedger, ReportsACompletedRoundOnce) {
  MergeLedger ledger;
  std::vector<float> model(3);
  ledger.begin(model);
  EXPECT_FALSE(ledger.merge(model));
  ledger.complete_round();
  EXPECT_TRUE(ledger.merge(model));
  EXPECT_FALSE(ledger.merge(model));
}

TEST(MergeLedger, WhatIsPendingSurvivesACheckpoint) {
  Group group(2, 4, 3);
  group.take_snapshots(0, 4);
  group.hand_in(0);
  MergeLedger restored;
  restored.restore(group.ledger(0).pending());
  std::vector<float> model = group.models()[0];
  restored.begin(model);
  group.merge(0);
  restored.merge(model);
  EXPECT_EQ(model, group.models()[0]);
  MergeLedger other;
  other.restore({1, 2, 3});
  EXPECT_THROW(other.begin(model), WireError);
}

// With any order of steps, merges and parts of rounds, the sum of all models is the sum of the
// first models plus all steps; and rounds without further steps make the models equal.
RC_GTEST_PROP(MergeLedger, NothingIsLostUnderAnySchedule, ()) {
  const auto workers = *rc::gen::inRange<std::size_t>(1, 9);
  for (std::uint64_t schedule = 0; schedule < 20; ++schedule) {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    constexpr std::size_t kNumel = 6;
    Group group(workers, kNumel, seed);
    std::vector<double> before;
    for (std::size_t i = 0; i < kNumel; ++i) before.push_back(group.sum(i));
    bool open = false;
    for (std::uint64_t event = 0; event < 60; ++event) {
      const auto random = base::philox(seed, event, 0, base::Purpose::test);
      const std::size_t worker = random[1] % workers;
      if (random[0] % 3 == 0) group.move(worker, static_cast<float>(random[2] % 9) / 8 - 0.5f);
      if (random[0] % 3 == 1) group.merge(worker);
      if (random[0] % 3 == 2) {
        open ? group.hand_in(0) : group.take_snapshots(0, kNumel);
        open = !open;
      }
    }
    if (open) group.hand_in(0);
    group.merge_all();
    for (std::size_t i = 0; i < kNumel; ++i) {
      RC_ASSERT(std::abs(group.sum(i) - before[i] - group.moved()) < 1e-3);
    }
    for (const std::size_t begin : {0u, 2u, 4u}) {  // in parts
      group.take_snapshots(begin, begin + 2);
      group.hand_in(begin);
    }
    group.merge_all();
    RC_ASSERT(group.spread() < 1e-4);
  }
}

}  // namespace
}  // namespace thinwire::strategy
