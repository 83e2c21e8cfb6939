// What a worker's own step takes, without the time it spends in the hooks of its strategy.
#pragma once

#include "thinwire/types.h"

namespace thinwire::strategy {

class StepClock {
 public:
  void enter(Seconds now) { outside_ += now - left_; }  // a hook begins
  void leave(Seconds now) { left_ = now; }              // a hook ends
  // The time outside of hooks since the last call.
  Seconds take() {
    const Seconds out = outside_;
    outside_ = Seconds(0);
    return out;
  }

 private:
  Seconds left_{0}, outside_{0};
};

}  // namespace thinwire::strategy
