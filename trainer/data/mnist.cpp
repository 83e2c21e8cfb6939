// MNIST (LeCun, Cortes, Burges) and what shares its format, such as Fashion-MNIST.
#include <fmt/format.h>

#include <algorithm>

#include "thinwire/error.h"
#include "trainer/data/idx.h"
#include "trainer/data/images.h"

namespace thinwire::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSide = 28;
constexpr std::uint8_t kClasses = 10;

std::unique_ptr<Dataset> read_part(const fs::path& directory, const char* part,
                                   std::uint64_t usual_count) {
  const std::string advice =
      fmt::format("get MNIST with `tools/get-data mnist {}`", directory.string());
  DataFile image_file(directory / fmt::format("{}-images-idx3-ubyte", part),
                      16 + usual_count * kSide * kSide, advice);
  DataFile label_file(directory / fmt::format("{}-labels-idx1-ubyte", part), 8 + usual_count,
                      advice);
  IdxArray labels = read_idx(label_file, 1);
  if (const auto wrong = std::find_if(labels.values.begin(), labels.values.end(),
                                      [](std::uint8_t label) { return label >= kClasses; });
      wrong != labels.values.end()) {
    label_file.refuse(fmt::format("is damaged: label {} is {}, labels are 0 to {}",
                                  wrong - labels.values.begin(), *wrong, kClasses - 1));
  }
  IdxArray images = read_idx(image_file, 3);
  if (images.extents[1] != kSide || images.extents[2] != kSide) {
    image_file.refuse(fmt::format("has pictures of {} x {} pixels, not {} x {}", images.extents[1],
                                  images.extents[2], kSide, kSide));
  }
  if (images.extents[0] != labels.extents[0]) {
    image_file.refuse(fmt::format("has {} pictures, but there are {} labels", images.extents[0],
                                  labels.extents[0]));
  }

  ImageSet set;
  set.shape.channels = 1;
  set.shape.height = set.shape.width = kSide;
  set.shape.classes = kClasses;
  set.normalisation = {{0.1307f, 0.3081f}};
  set.pixels = std::move(images.values);
  set.labels = std::move(labels.values);
  return make_images(std::move(set));
}

}  // namespace

DataPair load_mnist(const std::string& argument, std::uint64_t /*seed*/) {
  if (argument.empty()) {
    throw ConfigError(
        "data 'mnist' needs the directory of its files: mnist:DIR "
        "(`tools/get-data mnist DIR` gets them)");
  }
  return {read_part(argument, "train", 60'000), read_part(argument, "t10k", 10'000)};
}

}  // namespace thinwire::trainer
