#include <gtest/gtest.h>

#include "trainer/data/test_files.h"

namespace thinwire::trainer {
namespace {

constexpr std::uintmax_t kRecordBytes = 3073;
constexpr std::uintmax_t kFileBytes = 10'000 * kRecordBytes;

// Six files of the right size, all zeros except for the bytes that a test writes. They are sparse
// files, which take hardly any disk space.
class Cifar10 : public testing::Test {
 protected:
  void make(const std::string& folder) {
    folder_ = directory_.path() / folder;
    std::filesystem::create_directories(folder_);
    for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                             "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
      std::ofstream(folder_ / name).flush();
      std::filesystem::resize_file(folder_ / name, kFileBytes);
    }
  }
  void put(const std::string& name, std::uintmax_t at, char byte) const {
    std::fstream file(folder_ / name, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  std::string spec() const { return "cifar10:" + directory_.str(); }

  test::ScratchDirectory directory_;
  std::filesystem::path folder_;
};

TEST_F(Cifar10, IsReadAndNormalized) {
  make("");
  put("data_batch_1.bin", 0, 4);
  put("data_batch_5.bin", 9'999 * kRecordBytes, 9);               // the last label
  put("data_batch_5.bin", 9'999 * kRecordBytes + 3'072, '\xff');  // the last blue pixel
  put("data_batch_2.bin", 1, 51);                                 // the first red pixel
  put("test_batch.bin", kRecordBytes, 3);
  const DataPair pair = load_data(spec(), 1);
  ASSERT_EQ(pair.train->size(), 50'000u);
  ASSERT_EQ(pair.test->size(), 10'000u);
  const ExampleShape shape = pair.test->shape();
  EXPECT_EQ(shape.channels, 3);
  EXPECT_EQ(shape.height, 32);
  EXPECT_EQ(shape.width, 32);
  EXPECT_EQ(shape.classes, 10);
  EXPECT_EQ(read_example(*pair.train, 0).labels[0], 4);
  EXPECT_EQ(read_example(*pair.test, 1).labels[0], 3);
  EXPECT_FLOAT_EQ(read_example(*pair.train, 10'000).pixels[0], (0.2f - 0.4914f) / 0.2470f);
  const Example last = read_example(*pair.train, 49'999);
  EXPECT_EQ(last.labels[0], 9);
  EXPECT_FLOAT_EQ(last.pixels[0], (0 - 0.4914f) / 0.2470f);
  EXPECT_FLOAT_EQ(last.pixels[1'024], (0 - 0.4822f) / 0.2435f);
  EXPECT_FLOAT_EQ(last.pixels[3'071], (1 - 0.4465f) / 0.2616f);
}

TEST_F(Cifar10, IsFoundInTheDirectoryOfItsArchive) {
  make("cifar-10-batches-bin");
  put("test_batch.bin", 0, 8);
  const DataPair pair = load_data(spec(), 1);
  EXPECT_EQ(read_example(*pair.test, 0).labels[0], 8);

  put("data_batch_3.bin", 5 * kRecordBytes, 10);
  expect_contains(refusal(spec()), {"data_batch_3.bin", "record 5 has label 10", "0 to 9"});
}

TEST_F(Cifar10, NamesAMissingFileItsSizeAndHowToGetIt) {
  expect_contains(refusal(spec()),
                  {directory_.str() + "/data_batch_1.bin", "is missing", "30730000 bytes",
                   "tools/get-data cifar10 " + directory_.str()});
  make("cifar-10-batches-bin");
  std::filesystem::remove(folder_ / "test_batch.bin");
  expect_contains(refusal(spec()), {"cifar-10-batches-bin/test_batch.bin", "is missing"});
}

TEST_F(Cifar10, RefusesAFileOfAnotherSize) {
  make("");
  std::filesystem::resize_file(folder_ / "data_batch_4.bin", kFileBytes - kRecordBytes);
  expect_contains(refusal(spec()), {"data_batch_4.bin", "30726927 bytes", "30730000"});
  std::filesystem::resize_file(folder_ / "data_batch_4.bin", kFileBytes + 1);
  expect_contains(refusal(spec()), {"data_batch_4.bin", "30730001 bytes", "30730000"});
}

TEST_F(Cifar10, RecognisesThePythonVersion) {
  directory_.write("data_batch_1", "pickled");
  expect_contains(refusal(spec()), {"Python version", "tools/get-data cifar10"});
}

}  // namespace
}  // namespace thinwire::trainer
