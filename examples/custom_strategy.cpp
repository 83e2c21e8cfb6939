// A strategy that lives outside of thinwire: every worker sends the signs of its gradient, and all
// apply the sign of the sum with a fixed magnitude (signSGD with majority vote, Bernstein et al.,
// ICML 2018). A Session runs it like any built-in strategy.
//
//   custom_strategy            4 workers as threads learn a small least-squares problem
#include <thinwire/thinwire.h>

#include <cmath>
#include <iostream>
#include <random>
#include <vector>

namespace {

class SignVote final : public thinwire::GradientStrategy {
 public:
  // Called once by all ranks; the layout never changes, so that exchange() allocates nothing.
  void begin(const thinwire::StrategyContext& context) override {
    votes_.resize(context.layout.numel);
  }

  thinwire::Update exchange(const thinwire::GradientStep& step) override {
    // A vote is 0 or 2, or 1 for a gradient of 0: sums of bytes are exact for up to 127 workers.
    // The last flag is not a vote: it says on all ranks whether a gradient anywhere is not finite.
    std::uint32_t finite = 1;
    for (std::size_t i = 0; i < votes_.size(); ++i) {
      const float gradient = step.grads[i];
      if (!std::isfinite(gradient)) finite = 0;
      votes_[i] = gradient > 0 ? 2 : gradient < 0 ? 0 : 1;
    }
    thinwire::allreduce_and(step.wire, std::span(&finite, 1));
    if (finite == 0) return thinwire::Update::skipped();
    thinwire::allreduce_sum(step.wire, std::span(votes_));
    const int undecided = step.workers();
    for (std::size_t i = 0; i < votes_.size(); ++i) {
      const int vote = votes_[i] - undecided;
      step.grads[i] = vote > 0 ? 1.0f : vote < 0 ? -1.0f : 0.0f;
    }
    return thinwire::Update::dense();
  }

 private:
  std::vector<std::uint8_t> votes_;
};

constexpr std::size_t kNumel = 1000;
constexpr int kSteps = 400;

// The target that all workers approach; each sees it with noise of its own.
float target(std::size_t i) { return std::sin(static_cast<float>(i)); }

void train(thinwire::Transport& wire) {
  const thinwire::Layout layout{{{"weights", 0, {kNumel}}}, kNumel};
  std::vector<float> params(kNumel), grads(kNumel);
  const thinwire::ModelView model{params, grads, layout};
  thinwire::Session session(wire, {}, std::make_unique<SignVote>());
  session.begin(model, 0);
  std::mt19937 random(static_cast<unsigned>(wire.rank()) + 1);
  std::normal_distribution<float> noise(0, 0.3f);
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < kNumel; ++i) grads[i] = params[i] - target(i) + noise(random);
    const float rate = 0.02f * (1 - static_cast<float>(step) / kSteps);
    session.apply(model, session.exchange(model), rate);
    session.finish_step(model);
  }
  session.end(model);
  double error = 0;
  for (std::size_t i = 0; i < kNumel; ++i) error += std::abs(params[i] - target(i));
  error /= kNumel;
  if (!session.replicas_identical(model) || error > 0.05) {
    throw thinwire::Error("custom_strategy: the workers did not learn the target");
  }
  if (wire.rank() == 0) {
    std::cout << "mean error " << error << " with " << wire.size() << " workers; each sent "
              << wire.traffic().bytes_sent / kSteps << " bytes per step, the gradient has "
              << kNumel * sizeof(float) << '\n';
  }
}

}  // namespace

int main() {
  try {
    thinwire::JoinOptions options;
    options.size = 4;
    thinwire::run_workers("threads", options, train);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
