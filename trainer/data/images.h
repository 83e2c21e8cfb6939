// Labelled images in memory as bytes, one plane per channel: the data sets digits, mnist and
// cifar10.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/data/dataset.h"

namespace thinwire::trainer {

// How a byte of one channel becomes an input of the network: (byte / 255 - mean) / deviation.
struct Normalization {
  float mean = 0;
  float deviation = 1;
};

// What an augmentation does to an image.
enum class Variation {
  none,
  crop_flip,  // a random window of the image with a border of 4 black pixels; half are mirrored
};

struct ImageSet {
  ExampleShape shape;
  std::vector<std::uint8_t> pixels;          // shape.floats() bytes per example
  std::vector<std::uint8_t> labels;          // one per example, each below shape.classes
  std::vector<Normalization> normalization;  // one per channel
  Variation variation = Variation::none;
};

std::unique_ptr<Dataset> make_images(ImageSet set);

}  // namespace thinwire::trainer
