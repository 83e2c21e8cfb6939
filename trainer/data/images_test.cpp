#include "trainer/data/images.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "trainer/data/test_files.h"

namespace thinwire::trainer {
namespace {

constexpr std::int64_t kChannels = 2, kHeight = 9, kWidth = 11;
constexpr std::size_t kExamples = 3;

// Returns a set in which the bytes of an example are all different, and none is black.
ImageSet small_set(Variation variation) {
  ImageSet set;
  set.shape.channels = kChannels;
  set.shape.height = kHeight;
  set.shape.width = kWidth;
  set.shape.classes = 5;
  set.normalization = {{0.5f, 0.25f}, {0.25f, 0.5f}};
  set.variation = variation;
  for (std::size_t i = 0; i < kExamples; ++i) {
    set.labels.push_back(static_cast<std::uint8_t>(i + 2));
    for (std::size_t k = 0; k < set.shape.floats(); ++k) {
      set.pixels.push_back(static_cast<std::uint8_t>(1 + k + i));
    }
  }
  return set;
}

// Returns what read() must return for one window, computed in the simplest way.
std::vector<float> expected(const ImageSet& set, std::size_t index, std::int64_t top,
                            std::int64_t left, bool mirrored) {
  std::vector<float> result;
  for (std::int64_t channel = 0; channel < kChannels; ++channel) {
    const Normalization normal = set.normalization[static_cast<std::size_t>(channel)];
    for (std::int64_t y = 0; y < kHeight; ++y) {
      for (std::int64_t x = 0; x < kWidth; ++x) {
        const std::int64_t row = y + top, column = (mirrored ? kWidth - 1 - x : x) + left;
        const bool inside = row >= 0 && row < kHeight && column >= 0 && column < kWidth;
        const auto at = static_cast<std::size_t>((channel * kHeight + row) * kWidth + column) +
                        index * set.shape.floats();
        const float byte = inside ? static_cast<float>(set.pixels[at]) : 0.0f;
        result.push_back((byte / 255.0f - normal.mean) / normal.deviation);
      }
    }
  }
  return result;
}

TEST(Images, AreNormalisedChannelByChannel) {
  const ImageSet set = small_set(Variation::crop_flip);
  const auto data = make_images(set);
  EXPECT_EQ(data->size(), kExamples);
  for (std::size_t i = 0; i < kExamples; ++i) {
    const Example example = read_example(*data, i);
    EXPECT_EQ(example.pixels, expected(set, i, 0, 0, false));
    EXPECT_EQ(example.labels[0], static_cast<std::int64_t>(i + 2));
  }
}

TEST(Images, AreUnchangedWithoutAVariation) {
  const auto data = make_images(small_set(Variation::none));
  const Augmentation augmentation{1, 7};
  EXPECT_EQ(read_example(*data, 1), read_example(*data, 1, &augmentation));
}

TEST(Images, AreCroppedAndMirroredInEveryWay) {
  const ImageSet set = small_set(Variation::crop_flip);
  const auto data = make_images(set);
  using Way = std::tuple<std::int64_t, std::int64_t, bool>;
  std::map<std::vector<float>, Way> ways;
  for (std::int64_t top = -4; top <= 4; ++top) {
    for (std::int64_t left = -4; left <= 4; ++left) {
      for (const bool mirrored : {false, true}) {
        ways[expected(set, 1, top, left, mirrored)] = {top, left, mirrored};
      }
    }
  }
  ASSERT_EQ(ways.size(), 162u);

  std::map<Way, int> seen;
  for (std::uint64_t epoch = 0; epoch < 4'000; ++epoch) {
    const Augmentation augmentation{3, epoch};
    const auto way = ways.find(read_example(*data, 1, &augmentation).pixels);
    ASSERT_NE(way, ways.end()) << "epoch " << epoch;
    ++seen[way->second];
  }
  EXPECT_EQ(seen.size(), 162u);
  for (const auto& [way, count] : seen) EXPECT_LT(count, 60);  // 24.7 expected of each
}

TEST(Images, VaryWithSeedEpochAndExampleAlone) {
  const auto data = make_images(small_set(Variation::crop_flip));
  const auto windows = [&](std::uint64_t seed, std::size_t index) {
    std::vector<Example> examples;
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
      const Augmentation augmentation{seed, epoch};
      examples.push_back(read_example(*data, index, &augmentation));
      for (float& value : examples.back().pixels) value = value > -1.99f ? 1.0f : 0.0f;
      examples.back().labels.clear();
    }
    return examples;
  };
  EXPECT_EQ(windows(1, 0), windows(1, 0));
  EXPECT_NE(windows(1, 0), windows(2, 0));
  EXPECT_NE(windows(1, 0), windows(1, 1));
}

// The window of an image that is smaller than the border may not contain any of it.
TEST(Images, MayBeSmallerThanTheBorder) {
  ImageSet set;
  set.shape.channels = 1;
  set.shape.height = 2;
  set.shape.width = 3;
  set.shape.classes = 1;
  set.normalization = {{0, 1}};
  set.variation = Variation::crop_flip;
  set.pixels.assign(6, 255);
  set.labels = {0};
  const auto data = make_images(std::move(set));
  std::set<float> sums;
  for (std::uint64_t epoch = 0; epoch < 1'000; ++epoch) {
    const Augmentation augmentation{1, epoch};
    float sum = 0;
    for (const float value : read_example(*data, 0, &augmentation).pixels) sum += value;
    sums.insert(sum);
  }
  EXPECT_EQ(sums, (std::set<float>{0, 1, 2, 3, 4, 6}));
}

}  // namespace
}  // namespace thinwire::trainer
