#include "trainer/data/images.h"

#include <algorithm>

#include "base/random.h"

namespace thinwire::trainer {
namespace {

constexpr std::int64_t kBorder = 4;

// The position of the window in the image, and whether it is mirrored.
struct Window {
  std::int64_t top = 0, left = 0;
  bool mirrored = false;
};

// Returns one of the 2 x kBorder + 1 offsets from -kBorder on, uniformly up to a bias below 2^-28.
std::int64_t offset(std::uint32_t bits) {
  return static_cast<std::int64_t>((std::uint64_t{bits} * (2 * kBorder + 1)) >> 32) - kBorder;
}

Window draw_window(const Augmentation& augmentation, std::size_t index) {
  const auto bits =
      base::philox(augmentation.seed, augmentation.epoch, index, base::Purpose::augment);
  return {offset(bits[0]), offset(bits[1]), (bits[2] >> 31) != 0};
}

class Images final : public Dataset {
 public:
  explicit Images(ImageSet set) : set_(std::move(set)) {
    for (const Normalization& channel : set_.normalization) {
      std::array<float, 256>& table = tables_.emplace_back();
      for (std::size_t byte = 0; byte < table.size(); ++byte) {
        table[byte] = (static_cast<float>(byte) / 255.0f - channel.mean) / channel.deviation;
      }
    }
  }

  ExampleShape shape() const override { return set_.shape; }
  std::size_t size() const override { return set_.labels.size(); }

  void read(std::size_t index, const Augmentation* augmentation,
            const ExampleSlot& slot) const override {
    slot.labels[0] = set_.labels[index];
    const bool vary = augmentation != nullptr && set_.variation == Variation::crop_flip;
    const Window window = vary ? draw_window(*augmentation, index) : Window{};
    const std::uint8_t* picture = set_.pixels.data() + index * set_.shape.floats();
    const auto plane = static_cast<std::size_t>(set_.shape.height * set_.shape.width);
    for (std::size_t channel = 0; channel < tables_.size(); ++channel) {
      read_plane(picture + channel * plane, tables_[channel], window,
                 slot.pixels.data() + channel * plane);
    }
  }

 private:
  void read_plane(const std::uint8_t* from, const std::array<float, 256>& table,
                  const Window& window, float* to) const {
    const std::int64_t height = set_.shape.height, width = set_.shape.width;
    for (std::int64_t y = 0; y < height; ++y, to += width) {
      const std::int64_t row = y + window.top;
      if (row < 0 || row >= height) {
        std::fill_n(to, width, table[0]);
        continue;
      }
      // Columns first ... last-1 of this row of the window are inside the image.
      const std::int64_t first = std::clamp<std::int64_t>(-window.left, 0, width);
      const std::int64_t last = std::clamp<std::int64_t>(width - window.left, first, width);
      std::fill_n(to, first, table[0]);
      std::fill(to + last, to + width, table[0]);
      const std::uint8_t* bytes = from + row * width + window.left;
      for (std::int64_t x = first; x < last; ++x) to[x] = table[bytes[x]];
      if (window.mirrored) std::reverse(to, to + width);
    }
  }

  ImageSet set_;
  std::vector<std::array<float, 256>> tables_;
};

}  // namespace

std::unique_ptr<Dataset> make_images(ImageSet set) {
  return std::make_unique<Images>(std::move(set));
}

}  // namespace thinwire::trainer
