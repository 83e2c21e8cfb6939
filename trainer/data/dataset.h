// Labelled examples in memory, and where they come from. Plain C++: no torch here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::trainer {

// What one example is made of. Images have channels x height x width floats and one label;
// sequences have `length` tokens and as many labels (the token that follows each).
struct ExampleShape {
  enum class Kind { image, sequence };
  Kind kind = Kind::image;
  std::int64_t channels = 0, height = 0, width = 0;
  std::int64_t length = 0;
  std::int64_t classes =
      0;  // labels are 0 ... classes-1; of a sequence, the size of the vocabulary

  std::size_t floats() const noexcept {
    return static_cast<std::size_t>(channels * height * width);
  }
  std::size_t tokens() const noexcept { return static_cast<std::size_t>(length); }
  std::size_t labels() const noexcept {
    return kind == Kind::image ? 1 : static_cast<std::size_t>(length);
  }
};

// Where one example is written to. Only the spans of its kind are used.
struct ExampleSlot {
  MutFloats pixels;
  std::span<std::int64_t> tokens;
  std::span<std::int64_t> labels;
};

// An augmentation depends on these only, so that it is the same on every rank and in every run.
struct Augmentation {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

// Immutable once made; read() may be called from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual ExampleShape shape() const = 0;
  virtual std::size_t size() const = 0;
  // Writes example `index`, which is below size(), as the network sees it: normalised,
  // and, with an augmentation, varied. The spans have the sizes that shape() tells.
  virtual void read(std::size_t index, const Augmentation* augmentation,
                    const ExampleSlot& slot) const = 0;
};

struct DataPair {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
};

// One line of trainer/data/list.inc.
struct DataSource {
  std::string_view name;
  std::string_view help;
  DataPair (*load)(const std::string& argument, std::uint64_t seed);
};
std::span<const DataSource> data_sources();

// "digits", "mnist:DIR", "cifar10:DIR", "text:FILE", "text:word:FILE". ConfigError for an unknown
// name (with the closest), for a missing or damaged file (with its name, the expected size and how
// to get it).
DataPair load_data(std::string_view spec, std::uint64_t seed);

}  // namespace thinwire::trainer
