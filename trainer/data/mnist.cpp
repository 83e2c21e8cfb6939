// MNIST (LeCun, Cortes, Burges) and data sets in the same format, such as Fashion-MNIST.
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
  read_idx_extents(label_file, 1);
  const std::vector<std::uint32_t> pictures = read_idx_extents(image_file, 3);
  if (pictures[1] != kSide || pictures[2] != kSide) {
    image_file.refuse(fmt::format("has images of {} x {} pixels, not {} x {}", pictures[1],
                                  pictures[2], kSide, kSide));
  }
  std::vector<std::uint8_t> labels = read_idx_values(label_file);
  if (const auto wrong = std::find_if(labels.begin(), labels.end(),
                                      [](std::uint8_t label) { return label >= kClasses; });
      wrong != labels.end()) {
    label_file.refuse(fmt::format("is damaged: label {} is {} (labels are 0 to {})",
                                  wrong - labels.begin(), *wrong, kClasses - 1));
  }
  if (pictures[0] != labels.size()) {
    image_file.refuse(
        fmt::format("has {} images, but there are {} labels", pictures[0], labels.size()));
  }

  ImageSet set;
  set.shape.channels = 1;
  set.shape.height = set.shape.width = kSide;
  set.shape.classes = kClasses;
  set.normalization = {{0.1307f, 0.3081f}};
  set.pixels = read_idx_values(image_file);
  set.labels = std::move(labels);
  return make_images(std::move(set));
}

}  // namespace

DataPair load_mnist(const std::string& argument, std::uint64_t /*seed*/) {
  if (argument.empty()) {
    throw ConfigError(
        "data 'mnist': it needs the directory of its files, mnist:DIR; "
        "`tools/get-data mnist DIR` gets them");
  }
  return {read_part(argument, "train", 60'000), read_part(argument, "t10k", 10'000)};
}

}  // namespace thinwire::trainer
