// CIFAR-10 (Krizhevsky 2009) in its binary version: records of a label and three planes of 32 x 32.
#include <fmt/format.h>

#include "thinwire/error.h"
#include "trainer/data/file.h"
#include "trainer/data/images.h"

namespace thinwire::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint8_t kClasses = 10;
constexpr std::size_t kRecords = 10'000;  // in each file
constexpr std::size_t kPixels = std::size_t{3} * 32 * 32;
constexpr std::uint64_t kFileBytes = kRecords * (1 + kPixels);

// Returns the directory itself, or the subdirectory of the official archive.
fs::path find_batches(const fs::path& directory) {
  std::error_code ignored;
  const fs::path inner = directory / "cifar-10-batches-bin";
  const bool outside = fs::exists(directory / "data_batch_1.bin", ignored);
  return !outside && fs::is_directory(inner, ignored) ? inner : directory;
}

std::string advice_for(const fs::path& directory) {
  std::error_code ignored;
  std::string get =
      fmt::format("get CIFAR-10 with `tools/get-data cifar10 {}`", directory.string());
  for (const fs::path& here : {directory, directory / "cifar-10-batches-py"}) {
    if (fs::exists(here / "data_batch_1", ignored)) {
      return "the directory has the Python version, but the binary version is needed: " + get;
    }
  }
  return get;
}

std::unique_ptr<Dataset> read_files(std::vector<DataFile> files) {
  ImageSet set;
  set.shape.channels = 3;
  set.shape.height = set.shape.width = 32;
  set.shape.classes = kClasses;
  set.normalization = {{0.4914f, 0.2470f}, {0.4822f, 0.2435f}, {0.4465f, 0.2616f}};
  set.variation = Variation::crop_flip;
  set.pixels.resize(files.size() * kRecords * kPixels);
  set.labels.resize(files.size() * kRecords);
  std::size_t example = 0;
  for (DataFile& file : files) {
    for (std::size_t record = 0; record < kRecords; ++record, ++example) {
      std::uint8_t& label = set.labels[example];
      file.read({&label, 1});
      if (label >= kClasses) {
        file.refuse(fmt::format("is damaged: record {} has label {} (labels are 0 to {})", record,
                                label, kClasses - 1));
      }
      file.read({set.pixels.data() + example * kPixels, kPixels});
    }
  }
  return make_images(std::move(set));
}

}  // namespace

DataPair load_cifar10(const std::string& argument, std::uint64_t /*seed*/) {
  if (argument.empty()) {
    throw ConfigError(
        "data 'cifar10': it needs the directory of its files, cifar10:DIR; "
        "`tools/get-data cifar10 DIR` gets them");
  }
  const fs::path directory = find_batches(argument);
  const std::string advice = advice_for(argument);
  const auto open = [&](const std::string& name) {
    DataFile file(directory / name, kFileBytes, advice);
    file.expect_size(kFileBytes);
    return file;
  };
  std::vector<DataFile> train, test;
  for (int i = 1; i <= 5; ++i) train.push_back(open(fmt::format("data_batch_{}.bin", i)));
  test.push_back(open("test_batch.bin"));
  return {read_files(std::move(train)), read_files(std::move(test))};
}

}  // namespace thinwire::trainer
