// Labelled pictures held as bytes, one plane per channel; what digits, mnist and cifar10 become.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/data/dataset.h"

namespace thinwire::trainer {

// How a byte of one channel becomes what the network sees: (byte / 255 - mean) / deviation.
struct Normalisation {
  float mean = 0;
  float deviation = 1;
};

// What an augmentation does to a picture.
enum class Variation {
  none,
  crop_flip,  // a window of the picture with a border of 4 black pixels, mirrored half of the time
};

struct ImageSet {
  ExampleShape shape;
  std::vector<std::uint8_t> pixels;          // shape.floats() bytes per example
  std::vector<std::uint8_t> labels;          // one per example, each below shape.classes
  std::vector<Normalisation> normalisation;  // one per channel
  Variation variation = Variation::none;
};

std::unique_ptr<Dataset> make_images(ImageSet set);

}  // namespace thinwire::trainer
