#include "trainer/models/small_resnet.h"

namespace thinwire::trainer {

std::shared_ptr<Network> make_resnet8(const ExampleShape& shape) {
  return make_small_resnet("resnet8", shape, 1);
}

}  // namespace thinwire::trainer
