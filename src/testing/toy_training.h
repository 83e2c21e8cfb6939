// For tests: a rank that trains a small model with any strategy, as a trainer does, without torch.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "thinwire/session.h"

namespace thinwire::test {

// The model is a matrix and a bias, trained by plain SGD. The gradient is that of sum (x - 1)^2 /
// 2, plus noise.
class ToyTraining {
 public:
  ToyTraining(Transport& wire, const std::string& strategy)
      : layout_{{{"matrix", 0, {kRows, kColumns}}, {"bias", kRows * kColumns, {kColumns}}},
                (kRows + 1) * kColumns},
        params_(layout_.numel, 0.5f),
        grads_(layout_.numel),
        session_(wire, options(strategy)) {
    session_.begin(view(), 0);
  }

  void run(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps; ++i) step();
  }
  // Does what a trainer does before a checkpoint. Called by all ranks together.
  void quiesce() {
    session_.quiesce(view());
    Payload state;
    session_.save(state);
  }
  void end() { session_.end(view()); }
  std::span<const float> params() const { return params_; }

 private:
  static constexpr std::size_t kRows = 20, kColumns = 16;
  static constexpr float kRate = 0.01f;

  static SessionOptions options(const std::string& strategy) {
    SessionOptions options;
    options.strategy = strategy;
    return options;
  }
  ModelView view() { return {params_, grads_, layout_}; }

  void step() {
    const auto rank = static_cast<std::uint64_t>(session_.wire().rank());
    for (std::size_t i = 0; i < grads_.size(); ++i) {
      const auto noise = base::philox(7, session_.step() << 16 | rank, i, base::Purpose::test);
      grads_[i] = params_[i] - 1 + base::unit_float(noise[0]) - 0.5f;
    }
    session_.apply(view(), session_.exchange(view()), kRate);
    session_.finish_step(view(), {1, kRate});
  }

  Layout layout_;
  std::vector<float> params_, grads_;
  Session session_;
};

}  // namespace thinwire::test
