#include "strategy/sparse/coverage.h"

#include <fmt/format.h>

#include <cmath>

#include "thinwire/error.h"

namespace thinwire::strategy {

void Coverage::count(const Step& step) {
  steps_ += 1;
  selected_ += static_cast<double>(step.dense ? step.numel : step.selected);
  delivered_ += static_cast<double>(step.dense ? step.numel : step.delivered);
  if (step.dense) return;
  sparse_picked_ += static_cast<double>(step.picked);
  sparse_delivered_ += static_cast<double>(step.delivered);
  changed_ += static_cast<double>(step.changed);
}

double Coverage::workers_per_change(int workers) const {
  return changed_ > 0 ? sparse_delivered_ * workers / changed_ : 0;
}

void Coverage::report(const Run& run, std::vector<Metric>& out) const {
  const auto numel = static_cast<double>(run.numel);
  const double own = run.contributes ? numel : 0;  // a rank that only serves has no coordinates
  const double applied = sparse_picked_ > 0 ? sparse_delivered_ / sparse_picked_ : 1;
  const double to_come = static_cast<double>(run.steps_left) * run.density * numel * applied;
  out.push_back({"density", run.density * numel, numel});
  out.push_back({"density_mean", selected_, numel * steps_});
  out.push_back({"coverage", run.contributes ? delivered_ : 0, own});
  out.push_back({"coverage_predicted", run.contributes ? delivered_ + to_come : 0,
                 run.length_known ? own : 0});
  // Every worker knows the same number of changes, so that each reports a part of them.
  out.push_back({"workers_per_change", run.contributes ? sparse_delivered_ : 0,
                 run.contributes ? changed_ / run.workers : 0});
}

void Coverage::save(base::ByteWriter& out) const {
  for (const double each :
       {steps_, selected_, delivered_, sparse_picked_, sparse_delivered_, changed_}) {
    out.put(each);
  }
}

void Coverage::load(base::ByteReader& in) {
  for (double* each :
       {&steps_, &selected_, &delivered_, &sparse_picked_, &sparse_delivered_, &changed_}) {
    *each = in.get<double>();
    if (!std::isfinite(*each) || *each < 0) {
      throw WireError(fmt::format("coverage: its state is damaged (a count is {})", *each));
    }
  }
}

}  // namespace thinwire::strategy
