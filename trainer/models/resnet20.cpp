#include "trainer/models/small_resnet.h"

namespace thinwire::trainer {

std::shared_ptr<Network> make_resnet20(const ExampleShape& shape) {
  return make_small_resnet("resnet20", shape, 3);
}

}  // namespace thinwire::trainer
