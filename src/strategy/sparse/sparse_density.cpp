// How SparseStrategy decides about its density in the course of a run, and what it says about it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "strategy/sparse/sparse_strategy.h"
#include "transport/payload_scale.h"

namespace thinwire::strategy {

// A coordinate that is delivered only a few times in a run is hardly trained: ResNet-20 lost 5.5
// points of accuracy at a coverage of 2.5, and 2.1 points at 10.
void SparseStrategy::warn_if_covers_little(const StrategyContext& context) {
  const double per_density = density_.coverage_per_density(context.run);
  const double coverage = per_density * density_.target();
  const bool known = context.run.steps > 0 && !density_.automatic();
  if (context.wire.rank() != 0 || !known || coverage >= DensityControl::kFewCoverage) return;
  if (std::exchange(said_coverage_, true)) return;
  context.warn(fmt::format(
      "density: {:g} is low for {} steps (each coordinate of a worker is delivered about {:.1f} "
      "times), so that accuracy will be lower than with dense; train longer, or use density={:.2g} "
      "or auto",
      density_.target(), context.run.steps, coverage,
      std::min(1.0, DensityControl::kWantedCoverage / per_density)));
}

// All ranks decide before the same step, and before anything of it has changed.
void SparseStrategy::decide_density(const GradientStep& context) {
  const double before = density_.target();
  if (density_.is_due(context.step, context.run) &&
      density_.decide(context.wire, context.workers())) {
    guard_.density_changed(density_.target() / before);
    report_density(context);
  }
  if (context.step != density_.first_decision(context.run)) return;
  const double met = coverage_.workers_per_change(context.workers());
  const std::string text = met > 0 ? remark(met, context.workers()) : std::string();
  if (context.wire.rank() == context.first_worker && !text.empty()) context.inform(text);
}

double SparseStrategy::merging_pays_from(int workers) {
  return std::log2(workers) * workers / (workers - 1);
}

std::string SparseStrategy::remark(double, int) const { return {}; }

void SparseStrategy::report_density(const StrategyContext& context) {
  run_.density = density_.target();
  if (context.wire.rank() != 0) return;
  const std::size_t numel = context.layout.numel;
  const auto k = static_cast<std::size_t>(run_.density * static_cast<double>(numel));
  context.inform(fmt::format("density=auto: {:.2g} of {} elements from now on", run_.density,
                             transport::represented_bytes(context.wire, numel)));
  if (said_dense_ || !is_dense_shorter(context.wire, numel, std::max<std::size_t>(k, 1))) return;
  said_dense_ = true;
  if (const std::string text = dense_remark(); !text.empty()) context.warn(text);
}

std::string SparseStrategy::dense_remark() const {
  return fmt::format(
      "density=auto: at density {:.2g} sparse messages would be as long as dense ones, so that "
      "steps are dense; a longer run or a lower density sends less",
      run_.density);
}

}  // namespace thinwire::strategy
