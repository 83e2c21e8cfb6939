// For tests: runs a check on every CPU target of Highway that this machine supports.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

namespace thinwire::kernel {

// As long as an object of this class exists, kernels run on one target.
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
