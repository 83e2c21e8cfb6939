// For tests: a law on every kind of CPU that this one can pass for.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

namespace thinwire::kernel {

// While it lives, kernels run on one target.
class OnTarget {
 public:
  explicit OnTarget(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
  OnTarget(const OnTarget&) = delete;
  OnTarget& operator=(const OnTarget&) = delete;
};

template <class Law>
void on_every_target(Law law) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const OnTarget only(target);
    law();
  }
}

}  // namespace thinwire::kernel
