#include "plan/trial_step.h"

#include <vector>

#include "plan/synthetic_model.h"
#include "thinwire/error.h"
#include "thinwire/launch.h"
#include "thinwire/session.h"

namespace thinwire::plan {
namespace {

constexpr std::size_t kNumel = 256, kLayerSide = 8;
constexpr float kLearningRate = 0.01f;

// Keeps refusals of a strategy apart from other errors of the group.
struct Refusal : ConfigError {
  using ConfigError::ConfigError;
};

void run_one_step(Transport& wire, const std::string& strategy, const Layout& layout) {
  std::vector<float> params(kNumel, 1.0f), grads(kNumel, 1.0f);
  const ModelView model{params, grads, layout};
  SessionOptions options;
  options.strategy = strategy;
  Session session(wire, options);
  try {
    session.begin(model, 0);
  } catch (const ConfigError& error) {
    throw Refusal(error.what());
  }
  session.apply(model, session.exchange(model), 0);
  session.finish_step(model, {1, kLearningRate});
  session.end(model);
}

}  // namespace

std::optional<std::string> refusal_of(const std::string& strategy, const std::string& transport,
                                      int workers) {
  JoinOptions join;
  join.size = workers;
  const Layout layout = layered(kNumel, kLayerSide);
  try {
    run_workers(find_backend(transport).in_process ? transport : "threads", join,
                [&](Transport& wire) { run_one_step(wire, strategy, layout); });
  } catch (const Refusal& refusal) {
    return refusal.what();
  }
  return std::nullopt;
}

}  // namespace thinwire::plan
