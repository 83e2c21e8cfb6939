#include "report/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/readable.h"
#include "report/table.h"

namespace thinwire::report {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kUnknown = "–";

// The parts of a step in the order of the table and of the bars.
struct StepPart {
  const char* name;
  double (*seconds)(const ComparedRun& run);
};
constexpr StepPart kStepParts[] = {
    {"compute", [](const ComparedRun& run) { return run.compute; }},
    {"codec", [](const ComparedRun& run) { return run.codec; }},
    {"wire", [](const ComparedRun& run) { return run.wire; }},
    {"wait", [](const ComparedRun& run) { return run.wait; }},
    {"other", [](const ComparedRun& run) { return run.other_seconds(); }},
};

// How a run looks in every chart. The baseline has a color of its own (0); the others share the
// colors 1 to 8, and their lines are dashed once these are used up.
struct SeriesStyle {
  int color = 0;
  bool dashed = false;

  std::string css_class() const { return fmt::format("s{}{}", color, dashed ? " dash" : ""); }
};

std::vector<SeriesStyle> series_styles(const Comparison& comparison) {
  constexpr int kColors = 8;
  std::vector<SeriesStyle> out;
  int others = 0;
  for (const ComparedRun& run : comparison.runs) {
    if (run.strategy == kBaseline) {
      out.push_back({});
    } else {
      out.push_back({1 + others % kColors, others >= kColors});
      ++others;
    }
  }
  return out;
}

// Keeps the browser from breaking a line between a number and its percent sign.
std::string unbroken_percent(std::string text) {
  constexpr std::string_view kNoBreakSpace = "\u00a0";
  for (std::size_t at = 0; (at = text.find(" %", at)) != std::string::npos;) {
    text.replace(at, 1, kNoBreakSpace);
  }
  return text;
}

Json sentences(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) out.push_back(unbroken_percent(text));
  return out;
}

std::string time_text(double seconds) { return base::readable_time(Seconds(seconds)); }

std::string factor_text(const std::optional<double>& factor) {
  return factor ? base::readable_factor(*factor) : std::string(kUnknown);
}

std::string positive_text(const std::optional<double>& value, int digits) {
  return value.value_or(0) > 0 ? fmt::format("{:.{}g}", *value, digits) : std::string(kUnknown);
}

std::string accuracy_text(double accuracy) { return fmt::format("{:.2f} %", 100 * accuracy); }

// Whether its least accurate worker differs from the mean of all models.
bool has_worst_worker(const ComparedRun& run) {
  return run.finished() && run.accuracy_worst_worker != run.accuracy;
}

bool with_worst_worker(const Comparison& comparison) {
  return std::ranges::any_of(comparison.runs, has_worst_worker);
}

bool has_residuals(const ComparedRun& run) {
  return std::ranges::any_of(run.residuals, [](const ResidualPoint& p) { return p.ratio > 0; });
}

Json column_names(const Comparison& comparison, const Recommendation& recommendation) {
  std::vector<std::string> out = {"accuracy"};
  if (with_worst_worker(comparison)) out.emplace_back("worst worker");
  out.insert(out.end(),
             {"time",
              recommendation.target ? fmt::format("to {:.0f} %", 100 * *recommendation.target)
                                    : std::string("to target"),
              "sooner", "per step"});
  for (const StepPart& part : kStepParts) out.emplace_back(part.name);
  out.insert(out.end(), {"sent / step", "fewer", "residual", "consensus"});
  return sentences(out);
}

// The cells of a finished run, in the order of column_names().
Json cells(const ComparedRun& run, const RunComparison& compared,
           const Recommendation& recommendation, bool with_worst) {
  Json out = Json::array({accuracy_text(run.accuracy)});
  if (with_worst) {
    out.push_back(has_worst_worker(run) ? accuracy_text(run.accuracy_worst_worker)
                                        : std::string(kUnknown));
  }
  out.push_back(time_text(run.seconds));
  out.push_back(time_to_target(run, compared, recommendation, kUnknown));
  out.push_back(factor_text(compared.sooner));
  out.push_back(time_text(run.per_step(run.seconds)));
  for (const StepPart& part : kStepParts) {
    out.push_back(time_text(run.per_step(part.seconds(run))));
  }
  out.push_back(base::readable_bytes(run.bytes_per_worker_step));
  out.push_back(factor_text(compared.fewer_bytes));
  out.push_back(positive_text(run.residual_ratio, 3));
  out.push_back(positive_text(run.consensus_distance, 2));
  return out;
}

Json table_rows(const Comparison& comparison, const Recommendation& recommendation) {
  const bool with_worst = with_worst_worker(comparison);
  const std::vector<SeriesStyle> styles = series_styles(comparison);
  Json out = Json::array();
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    const ComparedRun& run = comparison.runs[i];
    Json row = {{"index", i},
                {"name", run.strategy},
                {"style", styles[i].css_class()},
                {"winner", recommendation.winner == i},
                {"finished", run.finished()}};
    if (run.finished()) {
      row["cells"] = cells(run, recommendation.comparisons[i], recommendation, with_worst);
    } else {
      row["problem"] = run.problem.empty() ? "not run yet" : run.problem;
    }
    out.push_back(std::move(row));
  }
  return out;
}

Json setting_rows(const Setting& setting) {
  Json out = Json::array();
  for (const auto& [name, value] : setting) {
    if (!value.empty()) out.push_back({{"name", name}, {"value", value}});
  }
  return out;
}

Json test_points(const ComparedRun& run) {
  Json out = Json::array();
  for (const TestPoint& test : run.tests) {
    out.push_back({{"step", test.step},
                   {"seconds", test.seconds},
                   {"bytes", test.bytes},
                   {"accuracy", test.accuracy}});
  }
  return out;
}

Json residual_points(const ComparedRun& run) {
  Json out = Json::array();
  for (const ResidualPoint& point : run.residuals) {
    if (point.ratio > 0) out.push_back({{"step", point.step}, {"ratio", point.ratio}});
  }
  return out;
}

Json run_data(const ComparedRun& run, const SeriesStyle& style) {
  Json out = {{"strategy", run.strategy},         {"color", style.color},
              {"dashed", style.dashed},           {"finished", run.finished()},
              {"problem", run.problem},           {"tests", test_points(run)},
              {"residuals", residual_points(run)}};
  if (!run.finished()) return out;
  out["seconds_per_step"] = run.per_step(run.seconds);
  for (const StepPart& part : kStepParts) {
    out["step_parts"].push_back(
        {{"name", part.name}, {"seconds", run.per_step(part.seconds(run))}});
  }
  out["bytes_per_worker_step"] = run.bytes_per_worker_step;
  out["consensus_distance"] = run.drifted() ? Json(*run.consensus_distance) : Json();
  return out;
}

}  // namespace

nlohmann::json page_values(const Comparison& comparison, const Recommendation& recommendation) {
  const auto& runs = comparison.runs;
  const Json columns = column_names(comparison, recommendation);
  const auto finished = std::ranges::count_if(runs, &ComparedRun::finished);
  Json parts = Json::array();
  for (const StepPart& part : kStepParts) parts.push_back(part.name);
  return {{"title", comparison.title},
          {"finished_count", finished},
          {"run_count", runs.size()},
          {"has_results", finished > 0},
          {"headline", unbroken_percent(recommendation.headline)},
          {"sentences", sentences(recommendation.sentences)},
          {"caveats", sentences(recommendation.caveats)},
          {"columns", columns},
          {"column_count", columns.size()},
          {"runs", table_rows(comparison, recommendation)},
          {"parts", parts},
          {"with_worst_worker", with_worst_worker(comparison)},
          {"with_drift", std::ranges::any_of(runs, &ComparedRun::drifted)},
          {"with_residuals", std::ranges::any_of(runs, has_residuals)},
          {"command", comparison.command},
          {"setting", setting_rows(comparison.setting)}};
}

nlohmann::json chart_data(const Comparison& comparison, const Recommendation& recommendation) {
  const std::vector<SeriesStyle> styles = series_styles(comparison);
  Json runs = Json::array();
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    runs.push_back(run_data(comparison.runs[i], styles[i]));
  }
  return {{"target", recommendation.target ? Json(*recommendation.target) : Json()},
          {"virtual_time", comparison.virtual_time},
          {"runs", std::move(runs)}};
}

std::string script_safe(const nlohmann::json& value) {
  const std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {  // In JSON, angle brackets only occur inside strings.
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace thinwire::report
