#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/data/glyphs.h"
#include "trainer/data/test_files.h"

namespace thinwire::trainer {
namespace {

constexpr std::size_t kPixels = std::size_t{28} * 28;

const DataPair& digits() {
  static const DataPair pair = load_data("digits", 1);
  return pair;
}

TEST(Digits, HaveTheirSizeAndEqualClasses) {
  EXPECT_EQ(digits().train->size(), 12'000u);
  EXPECT_EQ(digits().test->size(), 2'000u);
  for (const Dataset* data : {digits().train.get(), digits().test.get()}) {
    const ExampleShape shape = data->shape();
    EXPECT_EQ(shape.kind, ExampleShape::Kind::image);
    EXPECT_EQ(shape.channels, 1);
    EXPECT_EQ(shape.height, 28);
    EXPECT_EQ(shape.width, 28);
    EXPECT_EQ(shape.classes, 10);
    EXPECT_EQ(shape.labels(), 1u);
    std::array<std::size_t, 10> counts{};
    for (std::size_t i = 0; i < data->size(); ++i) {
      ++counts.at(static_cast<std::size_t>(read_example(*data, i).labels[0]));
    }
    for (const std::size_t count : counts) EXPECT_EQ(count, data->size() / 10);
  }
}

TEST(Digits, AreAFunctionOfTheSeed) {
  const DataPair same = load_data("digits", 1), other = load_data("digits", 2);
  for (std::size_t i = 0; i < 2'000; ++i) {
    ASSERT_EQ(read_example(*digits().train, i), read_example(*same.train, i)) << i;
    ASSERT_EQ(read_example(*digits().test, i), read_example(*same.test, i)) << i;
    ASSERT_NE(read_example(*digits().train, i), read_example(*other.train, i)) << i;
    ASSERT_NE(read_example(*digits().train, i), read_example(*digits().test, i)) << i;
  }
}

TEST(Digits, AreNotAugmented) {
  const Augmentation augmentation{1, 2};
  EXPECT_EQ(read_example(*digits().train, 5), read_example(*digits().train, 5, &augmentation));
}

TEST(Digits, AreNormalisedAndEachHasInk) {
  double sum = 0, squares = 0;
  const std::size_t count = digits().train->size();
  for (std::size_t i = 0; i < count; ++i) {
    const Example example = read_example(*digits().train, i);
    std::size_t inked = 0;
    for (const float value : example.pixels) {
      sum += value;
      squares += static_cast<double>(value) * value;
      inked += value > 1 ? 1 : 0;
    }
    ASSERT_GE(inked, 15u) << i;
    ASSERT_LE(inked, 300u) << i;
  }
  const double values = static_cast<double>(count * kPixels);
  EXPECT_NEAR(sum / values, 0, 0.02);
  EXPECT_NEAR(squares / values, 1, 0.03);
}

// The labels match the images, but a comparison with the mean image of each digit does not classify
// all of them.
TEST(Digits, CanBeClassifiedButNotByMeanImages) {
  std::vector<std::array<double, kPixels>> means(10);
  for (std::size_t i = 0; i < digits().train->size(); ++i) {
    const Example example = read_example(*digits().train, i);
    auto& mean = means[static_cast<std::size_t>(example.labels[0])];
    for (std::size_t k = 0; k < kPixels; ++k) mean[k] += example.pixels[k] / 1'200.0;
  }
  std::size_t right = 0;
  for (std::size_t i = 0; i < digits().test->size(); ++i) {
    const Example example = read_example(*digits().test, i);
    std::array<double, 10> distances{};
    for (std::size_t digit = 0; digit < 10; ++digit) {
      for (std::size_t k = 0; k < kPixels; ++k) {
        const double difference = example.pixels[k] - means[digit][k];
        distances[digit] += difference * difference;
      }
    }
    const auto nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
    right += nearest == example.labels[0] ? 1 : 0;
  }
  EXPECT_GE(right, 1'000u);
  EXPECT_LE(right, 1'700u);
}

TEST(Glyphs, FillTheirBoxAndAreMadeOfShortStrokes) {
  for (int digit = 0; digit < 10; ++digit) {
    const std::vector<Glyph> ways = glyphs_of(digit);
    EXPECT_GE(ways.size(), 2u) << digit;
    for (const Glyph& glyph : ways) {
      float top = 1, bottom = -1;
      for (const Stroke& stroke : glyph.strokes) {
        EXPECT_LT(std::hypot(stroke.to.x - stroke.from.x, stroke.to.y - stroke.from.y), 0.13f);
        for (const Point p : {stroke.from, stroke.to}) {
          EXPECT_LE(std::abs(p.x), 0.42f) << digit;
          top = std::min(top, p.y);
          bottom = std::max(bottom, p.y);
        }
      }
      EXPECT_NEAR(top, -0.5f, 0.05f) << digit;
      EXPECT_NEAR(bottom, 0.5f, 0.05f) << digit;
    }
  }
  EXPECT_TRUE(glyphs_of(10).empty());
}

}  // namespace
}  // namespace thinwire::trainer
