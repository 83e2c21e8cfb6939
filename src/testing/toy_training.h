// For tests: a rank that trains a small model with any strategy, as a trainer does, without torch.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "thinwire/session.h"

namespace thinwire::test {

// The model is four matrices, each with a bias, trained by plain SGD: enough tensors for seven
// buckets. The gradient is that of sum (x - 1)^2 / 2, plus noise.
class ToyTraining {
 public:
  ToyTraining(Transport& wire, const std::string& strategy, std::size_t buckets = 1)
      : wire_(wire), params_(layout_.numel, 0.5f), grads_(layout_.numel) {
    options_.strategy = strategy;
    options_.buckets = buckets;
    session_.emplace(wire_, options_);
    session_->begin(view(), 0);
  }

  void run(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps; ++i) step();
  }
  // Makes a gradient of the last rank infinite in the next step.
  void spoil_next_step() { spoiled_step_ = session_->step(); }
  // Does what a trainer does for a checkpoint, and returns the state. Called by all ranks together.
  Payload checkpoint() {
    session_->quiesce(view());
    Payload state;
    session_->save(state);
    return state;
  }
  // Goes on from a checkpoint of this very step with a new session; all ranks together.
  void resume(const Payload& state) {
    const std::uint64_t step = session_->step();
    session_.emplace(wire_, options_);
    session_->load(state);
    session_->begin(view(), step);
  }
  void end() { session_->end(view()); }
  std::span<const float> params() const { return params_; }
  std::uint64_t skipped_steps() const { return session_->stats().skipped_steps; }

 private:
  static constexpr std::size_t kRows = 10, kColumns = 8;
  static constexpr int kLayers = 4;
  static constexpr float kRate = 0.01f;

  static Layout make_layout() {
    Layout out;
    const auto add = [&](const std::string& name, std::vector<std::size_t> shape) {
      out.tensors.push_back({name, out.numel, std::move(shape)});
      out.numel += out.tensors.back().numel();
    };
    for (int layer = 0; layer < kLayers; ++layer) {
      add("matrix" + std::to_string(layer), {kRows, kColumns});
      add("bias" + std::to_string(layer), {kColumns});
    }
    return out;
  }
  ModelView view() { return {params_, grads_, layout_}; }

  void step() {
    const std::uint64_t step = session_->step();
    const auto rank = static_cast<std::uint64_t>(wire_.rank());
    for (std::size_t i = 0; i < grads_.size(); ++i) {
      const auto noise = base::philox(7, step << 16 | rank, i, base::Purpose::test);
      grads_[i] = params_[i] - 1 + base::unit_float(noise[0]) - 0.5f;
    }
    if (step == spoiled_step_ && wire_.rank() + 1 == wire_.size()) {
      grads_[17] = std::numeric_limits<float>::quiet_NaN();
    }
    session_->apply(view(), session_->exchange(view()), kRate);
    session_->finish_step(view(), {1, kRate});
  }

  Transport& wire_;
  const Layout layout_ = make_layout();
  SessionOptions options_;
  std::optional<std::uint64_t> spoiled_step_;
  std::vector<float> params_, grads_;
  std::optional<Session> session_;
};

}  // namespace thinwire::test
