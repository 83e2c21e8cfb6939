// The residual networks for small images of He et al. 2016, section 4.2: a convolution, then blocks
// of two convolutions with 16, 32 and 64 filters, then one linear layer.
#pragma once

#include <memory>
#include <string_view>

#include "trainer/models/network.h"

namespace thinwire::trainer {

// Returns the network with 6 * blocks_per_width + 2 layers. Throws ConfigError, with the name, if
// the examples are no images.
std::shared_ptr<Network> make_small_resnet(std::string_view name, const ExampleShape& shape,
                                           int blocks_per_width);

}  // namespace thinwire::trainer
