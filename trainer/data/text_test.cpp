#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "trainer/data/test_files.h"

namespace thinwire::trainer {
namespace {

std::string repeat(const std::string& text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

TEST(TextCharacters, AreTheBytesThatOccurInOrder) {
  const test::ScratchDirectory directory;
  const std::string text = repeat("hello \xc3\xa4!\n", 100);  // 1000 bytes
  const DataPair pair = load_data("text:" + directory.write("a.txt", text), 1);
  const ExampleShape shape = pair.train->shape();
  EXPECT_EQ(shape.kind, ExampleShape::Kind::sequence);
  EXPECT_EQ(shape.length, 64);
  EXPECT_EQ(shape.classes, 9);  // \n space ! e h l o and two bytes beyond ASCII
  EXPECT_EQ(shape.floats(), 0u);
  EXPECT_EQ(shape.labels(), 64u);
  EXPECT_EQ(pair.train->size(), 14u);  // (900 - 1) / 64
  EXPECT_EQ(pair.test->size(), 1u);    // (100 - 1) / 64

  const std::map<char, std::int64_t> token{{'\n', 0}, {' ', 1}, {'!', 2},    {'e', 3},   {'h', 4},
                                           {'l', 5},  {'o', 6}, {'\xa4', 7}, {'\xc3', 8}};
  for (std::size_t window = 0; window < 14; ++window) {
    const Example example = read_example(*pair.train, window);
    for (std::size_t k = 0; k < 64; ++k) {
      ASSERT_EQ(example.tokens[k], token.at(text[window * 64 + k]));
      ASSERT_EQ(example.labels[k], token.at(text[window * 64 + k + 1]));
    }
  }
  EXPECT_EQ(read_example(*pair.test, 0).tokens[1], token.at(text[901]));
}

TEST(TextWords, AreRankedByFrequency) {
  const test::ScratchDirectory directory;
  // 400 words. Of each four, two are "the". The text itself contains "<unk>", and "zebra" is not in
  // the training set.
  const std::string text = repeat("the\tcat  the <unk>\r\n", 90) + repeat("the dog zebra the ", 10);
  const DataPair pair = load_data("text:word:" + directory.write("a.txt", text), 1);
  EXPECT_EQ(pair.train->shape().length, 35);
  EXPECT_EQ(pair.train->shape().classes, 3);  // <unk> the cat
  EXPECT_EQ(pair.train->size(), 10u);         // (360 - 1) / 35
  EXPECT_EQ(pair.test->size(), 1u);
  const Example train = read_example(*pair.train, 1);
  for (std::size_t k = 0; k < 35; ++k) {
    const std::vector<std::int64_t> cycle{1, 2, 1, 0};
    ASSERT_EQ(train.tokens[k], cycle[(35 + k) % 4]);
    ASSERT_EQ(train.labels[k], cycle[(36 + k) % 4]);
  }
  const Example test = read_example(*pair.test, 0);
  EXPECT_EQ((std::vector<std::int64_t>(test.tokens.begin(), test.tokens.begin() + 5)),
            (std::vector<std::int64_t>{1, 0, 0, 1, 1}));
}

TEST(TextWords, BeyondTheTenThousandMostCommonAreUnknown) {
  const test::ScratchDirectory directory;
  std::string text;
  for (int i = 0; i < 10'500; ++i) text += fmt::format("w{} ", 100'000 + i);
  text += repeat("often ", 4'000);
  const DataPair pair = load_data("text:word:" + directory.write("a.txt", text), 1);
  EXPECT_EQ(pair.train->shape().classes, 10'001);
  // "often" is the most frequent word; words that occur once are in alphabetical order.
  EXPECT_EQ(read_example(*pair.train, 0).tokens[0], 2);
  EXPECT_EQ(read_example(*pair.train, 0).tokens[1], 3);
  EXPECT_EQ(read_example(*pair.train, 9'997 / 35).tokens[9'997 % 35], 9'999);
  EXPECT_EQ(read_example(*pair.train, 9'998 / 35).tokens[9'998 % 35], 10'000);
  EXPECT_EQ(read_example(*pair.train, 9'999 / 35).tokens[9'999 % 35], 0);
  EXPECT_EQ(read_example(*pair.test, 0).tokens[0], 1);
}

TEST(Text, IsNotAugmented) {
  const test::ScratchDirectory directory;
  const DataPair pair = load_data("text:" + directory.write("a", repeat("0123456789", 65)), 1);
  const Augmentation augmentation{1, 1};
  EXPECT_EQ(read_example(*pair.train, 1), read_example(*pair.train, 1, &augmentation));
}

TEST(Text, TooShortIsRefusedWithTheLengthItNeeds) {
  const test::ScratchDirectory directory;
  expect_contains(refusal("text:" + directory.write("empty.txt", "")), {"empty.txt", "is empty"});
  expect_contains(refusal("text:" + directory.write("short.txt", repeat("x", 649))),
                  {"short.txt", "649 characters", "650"});
  EXPECT_EQ(load_data("text:" + directory.write("a.txt", repeat("x", 650)), 1).test->size(), 1u);
  expect_contains(refusal("text:word:" + directory.write("short.txt", repeat("x ", 359))),
                  {"short.txt", "359 words", "360"});
  EXPECT_EQ(load_data("text:word:" + directory.write("a.txt", repeat("x ", 360)), 1).test->size(),
            1u);
  expect_contains(refusal("text:word:" + directory.write("spaces.txt", repeat(" \n", 900))),
                  {"spaces.txt", "0 words"});
}

TEST(Text, MissingOrStrangeFilesAreRefused) {
  const test::ScratchDirectory directory;
  expect_contains(refusal("text:/no/such/file"), {"/no/such/file", "is missing", "text:FILE"});
  expect_contains(refusal("text:" + directory.str()), {"is not a file"});
  const std::string huge = directory.write("huge.txt", "");
  std::filesystem::resize_file(huge, (1ull << 30) + 1);
  expect_contains(refusal("text:" + huge), {"1073741825 bytes", "1073741824"});
}

RC_GTEST_PROP(TextProperty, AnyBytesAreReadOrRefused, ()) {
  const test::ScratchDirectory directory;
  const auto piece = *rc::gen::container<std::string>(
      rc::gen::weightedOneOf<char>({{3, rc::gen::arbitrary<char>()}, {1, rc::gen::just(' ')}}));
  const std::string text = repeat(piece, *rc::gen::inRange<std::size_t>(0, 60));
  const std::string spec = *rc::gen::element<std::string>("text:", "text:word:");
  const std::string file = directory.write("a.txt", text);
  try {
    const DataPair pair = load_data(spec + file, 1);
    for (const Dataset* data : {pair.train.get(), pair.test.get()}) {
      RC_ASSERT(data->size() >= 1u);
      for (std::size_t i = 0; i < data->size(); ++i) {
        for (const std::int64_t token : read_example(*data, i).labels) {
          RC_ASSERT(token >= 0 && token < data->shape().classes);
        }
      }
    }
  } catch (const ConfigError& error) {
    RC_ASSERT(std::string(error.what()).find(file) != std::string::npos);
  }
}

}  // namespace
}  // namespace thinwire::trainer
