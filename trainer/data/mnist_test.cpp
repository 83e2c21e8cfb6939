#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>

#include "trainer/data/idx.h"
#include "trainer/data/test_files.h"

namespace thinwire::trainer {
namespace {

void put_word(FileBytes& bytes, std::uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  }
}

FileBytes images(std::uint32_t count, std::uint32_t height = 28, std::uint32_t width = 28) {
  FileBytes bytes;
  for (const std::uint32_t word : {0x803u, count, height, width}) put_word(bytes, word);
  for (std::uint32_t i = 0; i < count * height * width; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(i % 251));
  }
  return bytes;
}

FileBytes labels(const FileBytes& values) {
  FileBytes bytes;
  for (const std::size_t word : {std::size_t{0x801}, values.size()}) {
    put_word(bytes, static_cast<std::uint32_t>(word));
  }
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

// Four intact files with 3 and 2 examples; a test replaces one of them.
class Mnist : public testing::Test {
 protected:
  Mnist() {
    directory_.write("train-images-idx3-ubyte", images(3));
    directory_.write("train-labels-idx1-ubyte", labels({7, 0, 9}));
    directory_.write("t10k-images-idx3-ubyte", images(2));
    directory_.write("t10k-labels-idx1-ubyte", labels({1, 2}));
  }
  std::string spec() const { return "mnist:" + directory_.str(); }
  std::string refusal_of(const std::string& name, const FileBytes& bytes) const {
    directory_.write(name, bytes);
    return refusal(spec());
  }

  test::ScratchDirectory directory_;
};

TEST_F(Mnist, IsReadAndNormalized) {
  const DataPair pair = load_data(spec(), 1);
  ASSERT_EQ(pair.train->size(), 3u);
  ASSERT_EQ(pair.test->size(), 2u);
  const ExampleShape shape = pair.train->shape();
  EXPECT_EQ(shape.channels, 1);
  EXPECT_EQ(shape.height, 28);
  EXPECT_EQ(shape.width, 28);
  EXPECT_EQ(shape.classes, 10);
  const Example second = read_example(*pair.train, 1);
  EXPECT_EQ(second.labels[0], 0);
  for (std::size_t k = 0; k < 784; ++k) {
    const float byte = static_cast<float>((784 + k) % 251);
    ASSERT_FLOAT_EQ(second.pixels[k], (byte / 255.0f - 0.1307f) / 0.3081f);
  }
  EXPECT_EQ(read_example(*pair.train, 2).labels[0], 9);
  EXPECT_EQ(read_example(*pair.test, 1).labels[0], 2);
}

TEST_F(Mnist, NamesAMissingFileItsSizeAndHowToGetIt) {
  std::filesystem::remove(directory_.path() / "t10k-images-idx3-ubyte");
  expect_contains(refusal(spec()), {directory_.str() + "/t10k-images-idx3-ubyte", "is missing",
                                    "7840016 bytes", "tools/get-data mnist " + directory_.str()});
  expect_contains(refusal("mnist:/no/such/place"),
                  {"/no/such/place/train-images-idx3-ubyte", "missing", "47040016 bytes"});
}

TEST_F(Mnist, SaysHowToUnpackACompressedFile) {
  const auto file = directory_.path() / "train-labels-idx1-ubyte";
  std::filesystem::rename(file, file.string() + ".gz");
  expect_contains(refusal(spec()), {"is missing", "gunzip -k " + file.string() + ".gz"});
}

TEST_F(Mnist, RefusesWhatIsNotARegularFile) {
  const auto file = directory_.path() / "train-images-idx3-ubyte";
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  expect_contains(refusal(spec()), {file.string(), "is not a file"});
  std::filesystem::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);  // opening it would block
  expect_contains(refusal(spec()), {file.string(), "is not a file"});
  std::filesystem::remove(file);
  std::filesystem::create_symlink(file, file);
  expect_contains(refusal(spec()), {file.string(), "cannot be reached"});
}

TEST_F(Mnist, RefusesAFileOfAnotherSizeThanItsHeaderPromises) {
  FileBytes bytes = images(3);
  bytes.pop_back();
  expect_contains(refusal_of("train-images-idx3-ubyte", bytes),
                  {"train-images-idx3-ubyte", "2367 bytes", "3 x 28 x 28", "2368 bytes"});
  bytes.insert(bytes.end(), {1, 2});
  expect_contains(refusal_of("train-images-idx3-ubyte", bytes), {"2369 bytes", "2368 bytes"});
  expect_contains(refusal_of("train-images-idx3-ubyte", {0, 0, 8, 3, 0, 0}),
                  {"it has 6 bytes", "header alone takes 16"});
  expect_contains(refusal_of("train-images-idx3-ubyte", {}), {"it has 0 bytes"});
}

// The sizes are compared before memory is allocated.
TEST_F(Mnist, RefusesAHeaderWithAbsurdExtents) {
  FileBytes bytes;
  for (const std::uint32_t word : {0x803u, ~0u, ~0u, ~0u}) put_word(bytes, word);
  expect_contains(refusal_of("train-images-idx3-ubyte", bytes),
                  {"it has 16 bytes", "4294967295 x 4294967295 x 4294967295"});
}

// The file is sparse and has the size that its header announces: 1 TiB, more than any memory.
TEST_F(Mnist, RefusesWhatDoesNotFitIntoMemoryBeforeItIsRead) {
  FileBytes bytes;
  for (const std::uint32_t word : {0x803u, 1u << 16, 1u << 16, 1u << 8}) put_word(bytes, word);
  expect_contains(refusal_of("train-images-idx3-ubyte", bytes), {"it has 16 bytes"});
  const auto file = directory_.path() / "train-images-idx3-ubyte";
  std::filesystem::resize_file(file, bytes.size() + (std::uintmax_t{1} << 40));
  expect_contains(refusal(spec()), {"65536 x 256", "28 x 28"});

  DataFile image_file(file, 0, "advice");
  EXPECT_EQ(read_idx_extents(image_file, 3),
            (std::vector<std::uint32_t>{1 << 16, 1 << 16, 1 << 8}));
  try {
    read_idx_values(image_file);
    FAIL();
  } catch (const ConfigError& error) {
    expect_contains(error.what(), {file.string(), "needs 1099511627776 bytes"});
  }
}

TEST_F(Mnist, RefusesForeignContents) {
  FileBytes wrong = images(3);
  wrong[2] = 0x0d;  // floats
  expect_contains(refusal_of("train-images-idx3-ubyte", wrong), {"0x00000d03", "0x00000803"});
  expect_contains(refusal_of("train-images-idx3-ubyte", images(0)), {"holds nothing"});
  expect_contains(refusal_of("train-images-idx3-ubyte", images(3, 32, 28)), {"32 x 28", "28 x 28"});
  expect_contains(refusal_of("train-images-idx3-ubyte", images(4)), {"4 images", "3 labels"});
  expect_contains(refusal_of("train-labels-idx1-ubyte", labels({1, 10, 2})),
                  {"label 1 is 10", "0 to 9"});
}

// For any bytes the result is a data set or a ConfigError.
RC_GTEST_PROP(MnistProperty, AnyBytesAreReadOrRefused, ()) {
  const test::ScratchDirectory directory;
  FileBytes image_bytes = images(2), label_bytes = labels({3, 4});
  directory.write("t10k-images-idx3-ubyte", image_bytes);
  directory.write("t10k-labels-idx1-ubyte", label_bytes);
  FileBytes& damaged = *rc::gen::arbitrary<bool>() ? image_bytes : label_bytes;
  if (*rc::gen::arbitrary<bool>()) damaged = *rc::gen::arbitrary<FileBytes>();
  const auto changes = *rc::gen::inRange(0, 4);
  for (int i = 0; i < changes && !damaged.empty(); ++i) {
    const auto header = std::min<std::size_t>(damaged.size(), 16);
    damaged[*rc::gen::inRange<std::size_t>(0, header)] = *rc::gen::arbitrary<std::uint8_t>();
  }
  if (*rc::gen::arbitrary<bool>()) {
    damaged.resize(*rc::gen::inRange<std::size_t>(0, damaged.size() + 1));
  }
  directory.write("train-images-idx3-ubyte", image_bytes);
  directory.write("train-labels-idx1-ubyte", label_bytes);
  try {
    const DataPair pair = load_data("mnist:" + directory.str(), 1);
    RC_ASSERT(pair.train->size() == 2u);
    RC_ASSERT(read_example(*pair.train, 1).labels[0] < 10);
  } catch (const ConfigError& error) {
    RC_ASSERT(std::string(error.what()).find("tools/get-data mnist") != std::string::npos);
  }
}

}  // namespace
}  // namespace thinwire::trainer
