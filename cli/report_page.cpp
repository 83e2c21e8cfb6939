#include "cli/report_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/compare_table.h"
#include "cli/html.h"
#include "cli/readable.h"
#include "cli/report_charts.h"
#include "report_assets.h"

namespace thinwire::cli {
namespace {

// Two pictures of each chart, for screens and for phones: letters that shrink with a picture
// cannot be read. The style sheet shows the one that fits.
constexpr double kWideChart = 620, kNarrowChart = 340;

std::string time_text(double seconds) { return readable_time(Seconds(seconds)); }

std::string swatch(std::string_view css_class) {
  return fmt::format("<span class=\"swatch {}\"></span>", css_class);
}

std::string series_swatch(const Comparison& comparison, const ComparedRun& run) {
  return swatch(series_class(series_of(comparison, run)));
}

// No line ends between a number and its percent sign.
std::string sentence_html(std::string_view text) {
  std::string out = html_escaped(text);
  for (std::size_t at = 0; (at = out.find(" %", at)) != std::string::npos;) {
    out.replace(at, 1, "&nbsp;");
  }
  return out;
}

std::string verdict_card(const Verdict& verdict) {
  std::string out = fmt::format(
      "<section class=\"card verdict\" aria-label=\"Verdict\">\n<p "
      "class=\"headline\">{}</p>\n<ul>\n",
      sentence_html(verdict.headline));
  for (const std::string& sentence : verdict.sentences) {
    out += fmt::format("<li>{}.</li>\n", sentence_html(sentence));
  }
  out += "</ul>\n";
  for (const std::string& caveat : verdict.caveats) {
    out += fmt::format("<p class=\"note\">{}</p>\n", sentence_html(caveat));
  }
  return out + "</section>\n";
}

constexpr std::string_view kUnknown = "–";

std::string factor_text(const std::optional<double>& factor) {
  return factor ? readable_factor(*factor) : std::string(kUnknown);
}

// Where it is not that of all workers together.
bool has_worst_worker(const ComparedRun& run) {
  return run.finished() && run.accuracy_worst_worker != run.accuracy;
}

std::vector<std::string> cells(const ComparedRun& run, const Standing& standing,
                               const Verdict& verdict, bool with_worst) {
  const auto positive = [](const std::optional<double>& value, int digits) {
    return value.value_or(0) > 0 ? fmt::format("{:.{}g}", *value, digits) : std::string(kUnknown);
  };
  std::vector<std::string> out = {fmt::format("{:.2f} %", 100 * run.accuracy)};
  if (with_worst) {
    out.push_back(has_worst_worker(run) ? fmt::format("{:.2f} %", 100 * run.accuracy_worst_worker)
                                        : std::string(kUnknown));
  }
  out.insert(out.end(), {time_text(run.seconds),
                         html_escaped(time_to_target(run, standing, verdict, kUnknown)),
                         factor_text(standing.sooner), time_text(run.per_step(run.seconds))});
  for (const StepPart& part : step_parts()) {
    out.push_back(time_text(run.per_step(part.seconds(run))));
  }
  out.push_back(readable_bytes(run.bytes_per_worker_step));
  out.push_back(factor_text(standing.fewer_bytes));
  out.push_back(positive(run.residual_ratio, 3));
  out.push_back(positive(run.consensus_distance, 2));
  return out;
}

std::string figures_card(const Comparison& comparison, const Verdict& verdict) {
  const bool with_worst = std::ranges::any_of(comparison.runs, has_worst_worker);
  std::vector<std::string> names = {"strategy", "accuracy"};
  if (with_worst) names.emplace_back("worst worker");
  const std::string target =
      verdict.target ? fmt::format("to {:.0f} %", 100 * *verdict.target) : "to target";
  names.insert(names.end(), {"time", target, "sooner", "per step"});
  for (const StepPart& part : step_parts()) names.emplace_back(part.name);
  names.insert(names.end(), {"sent / step", "fewer", "residual", "consensus"});
  std::string out =
      "<section class=\"card\"><h2>Figures</h2>\n<div class=\"scroll\" "
      "tabindex=\"0\"><table>\n<tr>";
  for (const std::string& name : names) {
    out += fmt::format("<th scope=\"col\">{}</th>", sentence_html(name));
  }
  out += "</tr>\n";
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    const ComparedRun& run = comparison.runs[i];
    out += fmt::format("<tr{}><td>{}{}</td>", verdict.winner == i ? " class=\"winner\"" : "",
                       series_swatch(comparison, run), html_escaped(run.strategy));
    if (run.finished()) {
      for (const std::string& cell : cells(run, verdict.standings[i], verdict, with_worst)) {
        out += fmt::format("<td>{}</td>", cell);
      }
    } else {
      out += fmt::format("<td class=\"problem\" colspan=\"{}\">{}</td>", names.size() - 1,
                         run.problem.empty() ? "not run yet" : html_escaped(run.problem));
    }
    out += "</tr>\n";
  }
  return out +
         fmt::format(
             "</table></div>\n<p class=\"note\">Sooner and fewer are factors to the baseline, "
             "fewer over the whole run. Times per step and bytes are means over workers and steps. "
             "Tests and checkpoints count neither as time nor as steps.{}</p></section>\n",
             with_worst ? " The worst worker is the one whose own model was the least accurate "
                          "before all became one."
                        : "");
}

std::string legend(const Comparison& comparison) {
  std::string out = "<ul class=\"legend\" aria-label=\"Strategies\">\n";
  for (const ComparedRun& run : comparison.runs) {
    out += fmt::format(
        "<li><button type=\"button\" aria-pressed=\"true\" "
        "data-series=\"{0}\">{1}{0}</button></li>\n",
        html_escaped(run.strategy), series_swatch(comparison, run));
  }
  return out + "</ul>\n";
}

template <class Chart>
std::string figure(const Chart& chart, std::string_view caption, std::string_view above = {}) {
  return fmt::format(
      "<figure class=\"card\"><h2>{}</h2><figcaption>{}</figcaption>{}\n<div "
      "class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>\n",
      chart.text.title, caption, above, draw(chart, kWideChart), draw(chart, kNarrowChart));
}

std::string part_names() {
  std::string out = "<ul class=\"parts\">";
  for (const StepPart& part : step_parts()) {
    out += fmt::format("<li>{}{}</li>", swatch(part.css_class), part.name);
  }
  return out + "</ul>";
}

std::string charts(const Comparison& comparison, const Verdict& verdict) {
  const auto scale = [](const Axis& x, const Axis& y) {
    return fmt::format("{}{}", x.is_linear() ? "" : " The horizontal axis is logarithmic.",
                       y.is_linear() ? ""
                                     : " The vertical axis stretches towards 100 %: halving "
                                       "the errors is the same way up everywhere.");
  };
  const LineChart time = accuracy_over_time(comparison, verdict);
  const LineChart bytes = accuracy_over_bytes(comparison, verdict);
  const BarChart sent = bytes_per_step(comparison);
  std::string out = "<div class=\"grid-of-cards\">\n";
  out += figure(time, "Further left is sooner." + scale(time.x, time.y));
  const bool drifted = std::ranges::any_of(comparison.runs, &ComparedRun::drifted);
  out += figure(bytes, "Further left is cheaper." + scale(bytes.x, bytes.y) +
                           (drifted ? " Of workers with models of their own, rank 0's course is "
                                      "shown, or an even one where that is more."
                                    : ""));
  out += figure(parts_of_a_step(comparison),
                "Wire: the transfer itself. Wait: for workers that come late. Other: optimizer, "
                "reading data.",
                part_names());
  out += figure(sent, std::string("What one worker sends, headers included.") +
                          (sent.x.is_linear() ? "" : " The axis is logarithmic."));
  if (const LineChart chart = residuals_over_steps(comparison); !chart.lines.empty()) {
    out += figure(chart, std::string("What is held back, in gradients. It levels off where a "
                                     "strategy keeps up.") +
                             (chart.y.is_linear() ? "" : " The vertical axis is logarithmic."));
  }
  if (const BarChart chart = consensus_distances(comparison); !chart.rows.empty()) {
    out += figure(chart, std::string("How far the workers' models were from their mean before they "
                                     "became one.") +
                             (chart.x.is_linear() ? "" : " The axis is logarithmic."));
  }
  return out + "</div>\n";
}

std::string setting_card(const Comparison& comparison) {
  std::string out =
      fmt::format("<details class=\"card\" open><summary>Setting</summary>\n<pre>{}</pre>\n<dl>\n",
                  html_escaped(comparison.command));
  for (const auto& [name, value] : comparison.setting) {
    if (value.empty()) continue;
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_escaped(name), html_escaped(value));
  }
  return out + "</dl></details>\n";
}

}  // namespace

std::string report_page(const Comparison& comparison, const Verdict& verdict) {
  const std::string title = html_escaped(comparison.title);
  const auto finished = std::ranges::count_if(comparison.runs, &ComparedRun::finished);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>thinwire "
      "compare: "
      "{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<main>\n<header><h1>Which strategy "
      "suits "
      "this network?</h1><p>{0}; {2} of {3} strategies, one seed</p></header>\n",
      title, kReportStyle, finished, comparison.runs.size());
  out += verdict_card(verdict) + figures_card(comparison, verdict);
  if (finished > 0) out += legend(comparison) + charts(comparison, verdict);
  return out + setting_card(comparison) +
         fmt::format(
             "</main>\n<div id=\"tip\" role=\"status\"></div>\n<script>\n{}</script>\n"
             "</body>\n</html>\n",
             kReportScript);
}

}  // namespace thinwire::cli
