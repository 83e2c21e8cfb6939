// Files that a test writes, and what a data set says about them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "thinwire/error.h"
#include "trainer/data/dataset.h"

namespace thinwire::trainer {

using FileBytes = std::vector<std::uint8_t>;

// A directory of its own for each test, gone with it.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "thinwire.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), name);
    }
    path_ = name;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string str() const { return path_.string(); }

  std::string write(const std::string& name, const FileBytes& bytes) const {
    return write(name, std::string(bytes.begin(), bytes.end()));
  }
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

// The message with which a spec is refused; empty, and a failed test, if it is not.
inline std::string refusal(const std::string& spec) {
  try {
    (void)load_data(spec, 1);
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << spec << " was not refused";
  return {};
}

// Fails the test for each of `parts` that `text` lacks.
inline void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
}

// One example with memory of its own.
struct Example {
  std::vector<float> pixels;
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;
  bool operator==(const Example&) const = default;
};

inline Example read_example(const Dataset& data, std::size_t index,
                            const Augmentation* augmentation = nullptr) {
  const ExampleShape shape = data.shape();
  Example example{std::vector<float>(shape.floats()), std::vector<std::int64_t>(shape.tokens()),
                  std::vector<std::int64_t>(shape.labels())};
  data.read(index, augmentation, {example.pixels, example.tokens, example.labels});
  return example;
}

}  // namespace thinwire::trainer
