// What `plan` prints: tables and advice for people, a JSON line per prediction for scripts.
#pragma once

#include <string>
#include <vector>

#include "launch/console.h"
#include "plan/planner.h"

namespace thinwire::cli {

struct PlanSetting {
  plan::Workload workload;
  std::string model;               // empty: a number of parameters was given
  std::size_t measured_batch = 0;  // of the step that was timed here; 0: its time was given
  std::size_t batch = 0;           // that the time is for
  std::vector<std::string> strategies;
  std::vector<int> workers;
};

void print_plan_json(launch::Io& io, const PlanSetting& setting,
                     const plan::Prediction& prediction);

// Predictions that could not be made are missing.
void print_plan(launch::Io& io, const PlanSetting& setting,
                const std::vector<plan::Prediction>& predictions);

// The sentences of the advice: the best choice for each number of workers, and where dense is as
// good.
std::vector<std::string> plan_advice(const PlanSetting& setting,
                                     const std::vector<plan::Prediction>& predictions);

}  // namespace thinwire::cli
