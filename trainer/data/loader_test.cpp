#include "trainer/data/loader.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <map>
#include <set>
#include <thread>

#include "thinwire/error.h"
#include "trainer/data/test_files.h"

namespace thinwire::trainer {
namespace {

// A data set in which example i has the label i; its pixels are i and the seed and epoch of the
// augmentation.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::size_t size) : size_(size) {}

  ExampleShape shape() const override {
    ExampleShape shape;
    shape.channels = shape.height = 1;
    shape.width = 3;
    shape.classes = static_cast<std::int64_t>(size_);
    return shape;
  }
  std::size_t size() const override { return size_; }
  void read(std::size_t index, const Augmentation* augmentation,
            const ExampleSlot& slot) const override {
    slot.labels[0] = static_cast<std::int64_t>(index);
    slot.pixels[0] = static_cast<float>(index);
    slot.pixels[1] = augmentation != nullptr ? static_cast<float>(augmentation->seed) : -1;
    slot.pixels[2] = augmentation != nullptr ? static_cast<float>(augmentation->epoch) : -1;
    ++reads;
  }

  mutable std::atomic<std::uint64_t> reads{0};

 private:
  std::size_t size_;
};

using Labels = std::vector<std::int64_t>;

LoaderOptions options_of(int rank, int workers, std::size_t batch, std::uint64_t seed = 1) {
  LoaderOptions options;
  options.rank = rank;
  options.workers = workers;
  options.batch = batch;
  options.seed = seed;
  return options;
}

// Returns the labels of each of the first `steps` batches of one worker.
std::vector<Labels> batches(const Dataset& data, const LoaderOptions& options,
                            std::uint64_t steps) {
  Loader loader(data, options);
  std::vector<Labels> result;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const Batch& batch = loader.next();
    EXPECT_EQ(batch.labels.size(), batch.examples);
    EXPECT_EQ(batch.pixels.size(), 3 * batch.examples);
    EXPECT_EQ(batch.epoch, (options.step + step) / loader.steps_per_epoch());
    result.push_back(batch.labels);
  }
  return result;
}

// Does the same for all workers together, in the order of their ranks.
std::vector<Labels> global_batches(const Dataset& data, LoaderOptions options,
                                   std::uint64_t steps) {
  std::vector<Labels> result(steps);
  for (options.rank = 0; options.rank < options.workers; ++options.rank) {
    const auto part = batches(data, options, steps);
    for (std::uint64_t i = 0; i < steps; ++i) {
      result[i].insert(result[i].end(), part[i].begin(), part[i].end());
    }
  }
  return result;
}

LoaderOptions any_options() {
  LoaderOptions options =
      options_of(0, *rc::gen::inRange(1, 10), *rc::gen::inRange<std::size_t>(1, 20),
                 *rc::gen::arbitrary<std::uint64_t>());
  options.ahead = *rc::gen::inRange<std::size_t>(0, 4);
  return options;
}

RC_GTEST_PROP(BatchRangeProperty, PartsFollowEachOtherAndCoverEverything, ()) {
  const auto examples = *rc::gen::inRange<std::size_t>(1, 500);
  LoaderOptions options = any_options();
  const auto workers = static_cast<std::size_t>(options.workers);
  std::size_t at = 0;
  for (std::uint64_t step = 0; at < examples; ++step) {
    const std::size_t global = std::min(options.batch * workers, examples - at);
    for (options.rank = 0; options.rank < options.workers; ++options.rank) {
      const BatchRange range = batch_range(examples, options, step);
      RC_ASSERT(range.begin == at);
      RC_ASSERT(range.global_examples == global);
      const std::size_t part = range.end - range.begin;
      RC_ASSERT(part == global / workers || part == global / workers + 1);
      RC_ASSERT(part <= options.batch);
      at = range.end;
    }
  }
  RC_ASSERT(at == examples);
  const std::size_t global = std::min(options.batch * workers, examples);
  options.rank = 0;
  const BatchRange beyond = batch_range(examples, options, (examples + global - 1) / global);
  RC_ASSERT(beyond.begin == beyond.end);
  RC_ASSERT(beyond.global_examples == 0u);
}

TEST(BatchRange, EnormousBatchesAreOneBatch) {
  const LoaderOptions options = options_of(2, 3, ~std::size_t{0});
  const BatchRange range = batch_range(10, options, 0);
  EXPECT_EQ(range.begin, 6u);
  EXPECT_EQ(range.end, 10u);
  EXPECT_EQ(range.global_examples, 10u);
  EXPECT_EQ(Loader(Numbers(10), options).steps_per_epoch(), 1u);
}

RC_GTEST_PROP(ShuffleProperty, IsAPermutationAndAFunctionOfSeedAndEpoch,
              (std::uint64_t seed, std::uint64_t epoch)) {
  std::vector<std::uint32_t> order(*rc::gen::inRange<std::size_t>(0, 400), 7), again(order);
  shuffle_epoch(seed, epoch, order);
  shuffle_epoch(seed, epoch, again);
  RC_ASSERT(order == again);
  std::sort(again.begin(), again.end());
  for (std::uint32_t i = 0; i < again.size(); ++i) RC_ASSERT(again[i] == i);
  if (order.size() >= 30) {
    again = order;
    shuffle_epoch(seed, epoch + 1, again);
    RC_ASSERT(order != again);
    shuffle_epoch(seed + 1, epoch, again);
    RC_ASSERT(order != again);
  }
}

TEST(Shuffle, PrefersNoOrder) {
  std::map<std::vector<std::uint32_t>, int> counts;
  std::vector<std::uint32_t> order(4);
  for (std::uint64_t epoch = 0; epoch < 24'000; ++epoch) {
    shuffle_epoch(5, epoch, order);
    ++counts[order];
  }
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [permutation, count] : counts) EXPECT_NEAR(count, 1'000, 160);  // five sigma
}

RC_GTEST_PROP(LoaderProperty, WorkersShareEachEpochWithoutOverlap, ()) {
  const Numbers data(*rc::gen::inRange<std::size_t>(1, 300));
  const LoaderOptions options = any_options();
  const std::uint64_t steps = Loader(data, options).steps_per_epoch();
  const auto global = global_batches(data, options, 2 * steps);
  for (const std::uint64_t epoch : {0u, 1u}) {
    std::multiset<std::int64_t> seen;
    for (std::uint64_t i = 0; i < steps; ++i) {
      seen.insert(global[epoch * steps + i].begin(), global[epoch * steps + i].end());
    }
    RC_ASSERT(seen.size() == data.size());
    RC_ASSERT(std::set<std::int64_t>(seen.begin(), seen.end()).size() == data.size());
  }
  if (data.size() >= 30) {
    RC_ASSERT(std::vector(global.begin(), global.begin() + static_cast<std::ptrdiff_t>(steps)) !=
              std::vector(global.begin() + static_cast<std::ptrdiff_t>(steps), global.end()));
  }
}

RC_GTEST_PROP(LoaderProperty, OneWorkerWithTheWholeBatchSeesTheSame, ()) {
  const Numbers data(*rc::gen::inRange<std::size_t>(1, 300));
  const LoaderOptions many = any_options();
  LoaderOptions one = many;
  one.workers = 1;
  one.batch = many.batch * static_cast<std::size_t>(many.workers);
  const std::uint64_t steps = 2 * Loader(data, one).steps_per_epoch() + 1;
  RC_ASSERT(global_batches(data, many, steps) == batches(data, one, steps));
}

RC_GTEST_PROP(LoaderProperty, ContinuesAtAnyStepAsIfItHadNeverStopped, ()) {
  const Numbers data(*rc::gen::inRange<std::size_t>(1, 100));
  LoaderOptions options = any_options();
  options.rank = *rc::gen::inRange(0, options.workers);
  const auto whole = batches(data, options, 40);
  options.step = *rc::gen::inRange<std::uint64_t>(0, 40);
  options.ahead = *rc::gen::inRange<std::size_t>(0, 4);
  const auto rest = batches(data, options, 40 - options.step);
  RC_ASSERT(rest ==
            std::vector(whole.begin() + static_cast<std::ptrdiff_t>(options.step), whole.end()));
}

TEST(Loader, DistributesTheLastBatchEvenly) {
  const Numbers data(23);  // 12 + 11 with three workers of 4
  for (int rank = 0; rank < 3; ++rank) {
    Loader loader(data, options_of(rank, 3, 4));
    EXPECT_EQ(loader.steps_per_epoch(), 2u);
    EXPECT_EQ(loader.next().examples, 4u);
    const Batch& last = loader.next();
    EXPECT_EQ(last.examples, rank == 0 ? 3u : 4u);
    EXPECT_EQ(last.global_examples, 11u);
    EXPECT_EQ(loader.next().examples, 4u);
  }
}

TEST(Loader, GivesSomeWorkersNothingIfThereAreTooFewExamples) {
  const Numbers data(3);
  std::size_t examples = 0;
  for (int rank = 0; rank < 8; ++rank) {
    Loader loader(data, options_of(rank, 8, 4));
    EXPECT_EQ(loader.steps_per_epoch(), 1u);
    for (int epoch = 0; epoch < 3; ++epoch) {
      const Batch& batch = loader.next();
      EXPECT_EQ(batch.global_examples, 3u);
      EXPECT_LE(batch.examples, 1u);
      examples += batch.examples;
    }
  }
  EXPECT_EQ(examples, 9u);
}

TEST(Loader, PassesSeedAndEpochToTheAugmentation) {
  const Numbers data(6);
  LoaderOptions options = options_of(0, 1, 4, 77);
  Loader varied(data, options);
  options.augment = false;
  Loader plain(data, options);
  for (std::uint64_t step = 0; step < 6; ++step) {
    const Batch& batch = varied.next();
    const Batch& same = plain.next();
    EXPECT_EQ(batch.epoch, step / 2);
    EXPECT_EQ(batch.labels, same.labels);
    for (std::size_t i = 0; i < batch.examples; ++i) {
      EXPECT_EQ(batch.pixels[3 * i], static_cast<float>(batch.labels[i]));
      EXPECT_EQ(batch.pixels[3 * i + 1], 77);
      EXPECT_EQ(batch.pixels[3 * i + 2], static_cast<float>(batch.epoch));
      EXPECT_EQ(same.pixels[3 * i + 1], -1);
    }
  }
}

TEST(Loader, ReadsSequences) {
  const test::ScratchDirectory directory;
  std::string text;
  for (int i = 0; i < 2'000; ++i) text += static_cast<char>('a' + i * i % 26);
  const DataPair pair = load_data("text:" + directory.write("a.txt", text), 1);
  Loader loader(*pair.train, options_of(0, 1, 5));
  std::vector<std::uint32_t> order(pair.train->size());
  shuffle_epoch(1, 0, order);
  const Batch& batch = loader.next();
  EXPECT_TRUE(batch.pixels.empty());
  ASSERT_EQ(batch.tokens.size(), 5u * 64);
  ASSERT_EQ(batch.labels.size(), 5u * 64);
  for (std::size_t i = 0; i < 5; ++i) {
    const Example example = read_example(*pair.train, order[i]);
    const auto at = static_cast<std::ptrdiff_t>(i * 64);
    EXPECT_TRUE(
        std::equal(example.tokens.begin(), example.tokens.end(), batch.tokens.begin() + at));
    EXPECT_TRUE(
        std::equal(example.labels.begin(), example.labels.end(), batch.labels.begin() + at));
  }
}

bool reaches(const std::atomic<std::uint64_t>& count, std::uint64_t target) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (count < target) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// While a step computes, the next batches are read, and the one in use is not touched.
TEST(Loader, ReadsAheadWithoutTouchingTheBatchInUse) {
  const Numbers data(1'000);
  LoaderOptions options = options_of(0, 1, 10);
  options.ahead = 3;
  Loader loader(data, options);
  ASSERT_TRUE(reaches(data.reads, 30));
  std::set<const float*> buffers;
  for (std::uint64_t step = 1; step <= 250; ++step) {
    const Batch& batch = loader.next();
    const Labels before = batch.labels;
    ASSERT_TRUE(reaches(data.reads, (step + 3) * 10)) << step;
    ASSERT_EQ(data.reads, (step + 3) * 10) << step;
    ASSERT_EQ(batch.labels, before) << step;
    buffers.insert(batch.pixels.data());
  }
  EXPECT_EQ(buffers.size(), 4u);
}

TEST(Loader, WithoutReadingAheadReadsOneBatchPerCall) {
  const Numbers data(1'000);
  LoaderOptions options = options_of(0, 1, 10);
  options.ahead = 0;
  Loader loader(data, options);
  EXPECT_EQ(data.reads, 0u);
  for (std::uint64_t step = 1; step <= 5; ++step) {
    EXPECT_EQ(loader.next().examples, 10u);
    EXPECT_EQ(data.reads, step * 10);
  }
}

// A data set that throws when one of its examples is read.
class Broken final : public Numbers {
 public:
  Broken(std::size_t size, std::size_t bad) : Numbers(size), bad_(bad) {}
  void read(std::size_t index, const Augmentation* augmentation,
            const ExampleSlot& slot) const override {
    if (index == bad_) throw WireError("example " + std::to_string(index) + " is unreadable");
    Numbers::read(index, augmentation, slot);
  }

 private:
  std::size_t bad_;
};

TEST(Loader, DeliversWhatCameBeforeAnErrorAndThenTheError) {
  std::vector<std::uint32_t> order(100);
  shuffle_epoch(1, 0, order);
  const Broken data(100, order[57]);
  for (const std::size_t ahead : {0u, 1u, 2u, 9u}) {
    LoaderOptions options = options_of(0, 1, 10);
    options.ahead = ahead;
    Loader loader(data, options);
    for (std::size_t step = 0; step < 5; ++step) {
      EXPECT_EQ(loader.next().labels[9], order[step * 10 + 9]);
    }
    for (int again = 0; again < 3; ++again) {
      try {
        (void)loader.next();
        ADD_FAILURE() << "no error";
      } catch (const WireError& error) {
        EXPECT_EQ(error.what(), "example " + std::to_string(order[57]) + " is unreadable");
      }
    }
  }
}

// A data set whose read() blocks until the test releases it.
class Stuck final : public Numbers {
 public:
  using Numbers::Numbers;
  void read(std::size_t index, const Augmentation* augmentation,
            const ExampleSlot& slot) const override {
    gate.wait();
    Numbers::read(index, augmentation, slot);
  }
  mutable std::latch gate{1};
};

TEST(Loader, WaitsAtMostForItsPatience) {
  const Stuck data(10);
  LoaderOptions options = options_of(0, 1, 2);
  options.step = 3;
  options.patience = Seconds(0.05);
  {
    Loader loader(data, options);
    try {
      (void)loader.next();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      expect_contains(error.what(), {"0.05 s", "step 3"});
    }
    data.gate.count_down();
  }
  options.patience = Seconds(20);
  EXPECT_EQ(Loader(data, options).next().examples, 2u);
}

TEST(Loader, RefusesInvalidOptions) {
  const Numbers data(10), none(0);
  EXPECT_THROW(Loader(none, options_of(0, 1, 1)), ConfigError);
  EXPECT_THROW(Loader(data, options_of(0, 1, 0)), ConfigError);
  EXPECT_THROW(Loader(data, options_of(0, 0, 1)), ConfigError);
  EXPECT_THROW(Loader(data, options_of(3, 3, 1)), ConfigError);
  EXPECT_THROW(Loader(data, options_of(-1, 3, 1)), ConfigError);
}

TEST(Loader, GivesAServerEmptyBatchesAndReadsNothingForIt) {
  const Numbers data(1000);
  LoaderOptions options = options_of(0, 3, 100);
  options.serves = true;
  options.ahead = 0;
  Loader loader(data, options);
  EXPECT_EQ(loader.steps_per_epoch(), 4u);
  for (const std::size_t expected : {300u, 300u, 300u, 100u, 300u}) {
    const Batch& batch = loader.next();
    EXPECT_EQ(batch.examples, 0u);
    EXPECT_EQ(batch.global_examples, expected);
  }
  EXPECT_EQ(data.reads, 0u);
}

}  // namespace
}  // namespace thinwire::trainer
