// Predictions as text: tables and advice for people, JSON for scripts.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/planner.h"

namespace thinwire::plan {

// What was planned, for the headings.
struct PlanSetting {
  Workload workload;
  std::string model;               // empty: a number of parameters was given
  std::size_t measured_batch = 0;  // of the step that was timed here; 0: its time was given
  std::size_t batch = 0;           // that the time is for
  std::vector<std::string> strategies;
  std::vector<int> workers;
};

// Returns a heading as the terminal is to show it, for example in bold.
using Emphasis = std::function<std::string(std::string_view)>;

// Returns tables, notes and advice. Predictions that could not be made are missing.
std::string plan_text(const PlanSetting& setting, const std::vector<Prediction>& predictions,
                      const Emphasis& bold);

// Returns one prediction as a JSON object.
std::string plan_json(const PlanSetting& setting, const Prediction& prediction);

// Returns the sentences of the advice: the best choice for each number of workers, and where dense
// is as good.
std::vector<std::string> plan_advice(const PlanSetting& setting,
                                     const std::vector<Prediction>& predictions);

}  // namespace thinwire::plan
