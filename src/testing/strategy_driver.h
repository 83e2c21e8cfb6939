// Drives a strategy of either kind as a Session does, but without the Session's checks, broadcasts
// and messages, so that tests can count those of the strategy alone.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kernel/finite.h"
#include "thinwire/collective.h"
#include "thinwire/strategy.h"

namespace thinwire::test {

class StrategyDriver {
 public:
  StrategyDriver(Transport& wire, std::string_view spec, Layout layout, const RunOptions& run = {},
                 LogSink log = {}, std::uint64_t first_step = 0)
      : wire_(wire),
        layout_(std::move(layout)),
        run_(run),
        log_(std::move(log)),
        step_(first_step),
        strategy_(make_strategy(spec)),
        gradients_(dynamic_cast<GradientStrategy*>(strategy_.get())),
        models_(dynamic_cast<ModelStrategy*>(strategy_.get())) {}

  void begin(Floats params = {}) {
    left_at_ = wire_.now();
    if (alone()) return;
    if (gradients_ != nullptr) gradients_->begin(context());
    if (models_ != nullptr) models_->begin(context(), params, step_);
  }

  Update exchange(MutFloats grads, Floats params = {}) {
    own_time_ += wire_.now() - left_at_;
    const Update update = exchanged(grads, params);
    left_at_ = wire_.now();
    if (models_ == nullptr) ++step_;
    return update;
  }

  void finish_step(MutFloats params, std::uint64_t samples = 1, double learning_rate = 0.1) {
    if (models_ == nullptr) return;
    own_time_ += wire_.now() - left_at_;
    const ModelStep step{{context()}, step_, params, samples, learning_rate, own_time_};
    own_time_ = Seconds(0);
    if (!alone()) models_->after_step(step);
    ++step_;
    left_at_ = wire_.now();
  }

  void quiesce(MutFloats params) {
    if (models_ != nullptr && !alone()) models_->quiesce(context(), params);
  }
  void end(MutFloats params) {
    if (models_ != nullptr && !alone()) models_->end(context(), params);
  }

  Payload save() const {
    Payload out;
    strategy_->save(out);
    return out;
  }
  void load(Bytes state) { strategy_->load(state); }

  std::uint64_t step() const noexcept { return step_; }
  std::uint64_t global_samples() const {
    return models_ == nullptr ? 0 : models_->global_samples();
  }
  const Stats& stats() const noexcept { return stats_; }
  std::vector<Metric> metrics() const { return strategy_->metrics(); }
  Transport& wire() noexcept { return wire_; }
  Strategy& strategy() noexcept { return *strategy_; }

 private:
  bool alone() const { return wire_.size() == 1; }
  int serving_ranks() const {
    return gradients_ == nullptr ? 0 : gradients_->serving_ranks(wire_.size());
  }
  StrategyContext context() { return {wire_, layout_, run_, stats_, log_, serving_ranks()}; }

  Update exchanged(MutFloats grads, Floats params) {
    if (gradients_ != nullptr && !alone()) {
      return gradients_->exchange({{context()}, step_, params, grads});
    }
    const bool dense = models_ != nullptr && !alone() && step_ < models_->dense_steps(run_);
    const bool finite = dense ? allreduce_mean(wire_, grads) : kernel::all_finite(grads);
    if (models_ != nullptr && !alone() && !dense && finite) {
      models_->before_step({{context()}, step_, params, grads});
    }
    return Update::dense(finite);
  }

  Transport& wire_;
  const Layout layout_;
  const RunOptions run_;
  const LogSink log_;
  std::uint64_t step_;
  Seconds left_at_{0}, own_time_{0};
  Stats stats_;
  std::unique_ptr<Strategy> strategy_;
  GradientStrategy* gradients_;
  ModelStrategy* models_;
};

// Returns the metric of that name over all ranks; a record has the metrics of one.
template <class Record>
double metric(const std::vector<Record>& records, std::string_view name) {
  double amount = 0, of = 0;
  for (const Record& record : records) {
    for (const Metric& each : record.metrics) {
      if (each.name == name) amount += each.amount, of += each.of;
    }
  }
  return of == 0 ? 0 : amount / of;
}

}  // namespace thinwire::test
