// Labelled examples in memory, and the sources from which they are loaded. This is plain C++,
// without torch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::trainer {

// The shape of one example. An image has channels x height x width floats and one label; a sequence
// has `length` tokens and as many labels (for each token, the next one).
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

// The memory to which one example is written. Only the spans of its kind are used.
struct ExampleSlot {
  MutFloats pixels;
  std::span<std::int64_t> tokens;
  std::span<std::int64_t> labels;
};

// An augmentation depends only on these values and on the example, so that it is the same on every
// rank and in every run.
struct Augmentation {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

// A data set, which does not change; read() may be called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual ExampleShape shape() const = 0;
  virtual std::size_t size() const = 0;
  // Writes example `index`, which is below size(), as the input of the network: normalized and, if
  // `augmentation` is not null, augmented. The spans have the sizes of shape().
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

// Loads "digits", "mnist:DIR", "cifar10:DIR", "text:FILE" or "text:word:FILE". Throws ConfigError
// if the name is unknown (with the closest one) or if a file is missing or damaged (with its name,
// the expected size and how to get it).
DataPair load_data(std::string_view spec, std::uint64_t seed);

}  // namespace thinwire::trainer
