// Functions for tests of data sets: the error of a spec, and the contents of an example.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "testing/scratch_directory.h"
#include "thinwire/error.h"
#include "trainer/data/dataset.h"

namespace thinwire::trainer {

using FileBytes = std::vector<std::uint8_t>;

// Returns the message with which a spec is refused. If it is not refused, the test fails.
inline std::string refusal(const std::string& spec) {
  try {
    (void)load_data(spec, 1);
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << spec << " was not refused";
  return {};
}

// Fails the test for each of `parts` that is not in `text`.
inline void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
}

// One example that owns its memory.
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
