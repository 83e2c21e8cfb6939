#include <unistd.h>

#include <filesystem>
#include <string>

#include "fuzz/memory_file.h"
#include "fuzz/target.h"
#include "trainer/data/dataset.h"

namespace thinwire::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRightSize = 10'000 * 3073;

// A directory in which the six names of the data set are links to one file.
class BatchDirectory {
 public:
  explicit BatchDirectory(const fs::path& file)
      : path_(fs::temp_directory_path() / ("fuzz" + std::to_string(getpid()))) {
    fs::create_directory(path_);
    for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                             "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
      fs::create_symlink(file, path_ / name);
    }
  }
  ~BatchDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  BatchDirectory(const BatchDirectory&) = delete;
  BatchDirectory& operator=(const BatchDirectory&) = delete;

  std::string spec() const { return "cifar10:" + path_.string(); }

 private:
  fs::path path_;
};

}  // namespace

// Reading files of the right size takes some time, so only one input in a hundred gets this size.
void cifar10_files(Bytes input) {
  Choices choices(input);
  const bool right_size = choices.below(100) == 1;
  MemoryFile file(choices.rest());
  if (right_size) file.resize(kRightSize);
  const BatchDirectory directory(file.path());
  accept_or_refuse<ConfigError>([&] {
    const trainer::DataPair data = trainer::load_data(directory.spec(), 1);
    demand(data.train->size() == 50'000 && data.test->size() == 10'000);
  });
}

}  // namespace thinwire::fuzz
