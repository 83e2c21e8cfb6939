// Which charts a comparison has, and what is in them.
#pragma once

#include <span>
#include <string_view>

#include "cli/comparison.h"
#include "cli/svg_chart.h"
#include "cli/verdict.h"

namespace thinwire::cli {

// A part of a step: its class in the style sheet, its name, and what a run spent on it.
struct StepPart {
  std::string_view css_class, name;
  double (*seconds)(const ComparedRun& run);
};
std::span<const StepPart> step_parts();

LineChart accuracy_over_time(const Comparison& comparison, const Verdict& verdict);
LineChart accuracy_over_bytes(const Comparison& comparison, const Verdict& verdict);
LineChart residuals_over_steps(const Comparison& comparison);  // no lines: nobody keeps any
BarChart parts_of_a_step(const Comparison& comparison);
BarChart bytes_per_step(const Comparison& comparison);
BarChart consensus_distances(const Comparison& comparison);  // no rows: nobody drifted

// The number of a run among the series, the same in every chart; the baseline is the first.
int series_of(const Comparison& comparison, const ComparedRun& run);

}  // namespace thinwire::cli
