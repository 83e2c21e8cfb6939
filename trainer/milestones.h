// The steps of a run at which all workers wait for each other: to test, to save, and at the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace thinwire::trainer {

// The position of a run is counted in steps of all workers. If workers are asynchronous, the number
// of samples that all of them use in one step counts as a step. Milestones come in the same order
// on every rank, even if one step passes several of them.
class Milestones {
 public:
  struct Milestone {
    std::uint64_t step = 0;
    bool test = false, save = false, last = false;
  };

  // The run has `steps` steps and continues at step `first`. If test_every or save_every is 0,
  // there are no tests or no saves before the end.
  Milestones(std::uint64_t first, std::uint64_t steps, std::uint64_t test_every,
             std::uint64_t save_every)
      : at_(first), steps_(steps), test_every_(test_every), save_every_(save_every) {}

  bool over() const noexcept { return at_ >= steps_; }

  // Returns the next milestone if the run has reached it.
  std::optional<Milestone> due(double position) {
    if (over()) return std::nullopt;
    const std::uint64_t next = std::min({steps_, after(at_, test_every_), after(at_, save_every_)});
    constexpr double kRounding = 1e-9;
    if (position < static_cast<double>(next) * (1 - kRounding)) return std::nullopt;
    at_ = next;
    const auto on = [&](std::uint64_t every) { return every > 0 && next % every == 0; };
    return Milestone{next, on(test_every_) && !over(), on(save_every_) || over(), over()};
  }

 private:
  static std::uint64_t after(std::uint64_t at, std::uint64_t every) {
    return every == 0 ? UINT64_MAX : (at / every + 1) * every;
  }

  std::uint64_t at_, steps_, test_every_, save_every_;
};

}  // namespace thinwire::trainer
