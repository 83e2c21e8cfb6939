#include "plan/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/readable.h"

namespace thinwire::plan {
namespace {

constexpr std::string_view kBaseline = "dense";
// A strategy counts as good if its step takes at most this many times as long as the best one.
constexpr double kAsGood = 1.05;

using Rows = std::vector<const Prediction*>;

// Returns the predictions for that number of workers, in the order asked for.
Rows of_size(const std::vector<Prediction>& predictions, int workers) {
  Rows out;
  for (const Prediction& each : predictions) {
    if (each.workers == workers) out.push_back(&each);
  }
  return out;
}

// Returns the prediction of a strategy; null if there is none.
const Prediction* find(const Rows& rows, std::string_view strategy) {
  const auto found = std::ranges::find_if(
      rows, [&](const Prediction* each) { return each->strategy == strategy; });
  return found == rows.end() ? nullptr : *found;
}

// Returns the best of the strategies that keep replicas the same after every step, or of the
// others; null if there is none.
const Prediction* fastest(const Rows& rows, bool synchronous) {
  const Prediction* best = nullptr;
  for (const Prediction* each : rows) {
    if ((each->sync_mode == SyncMode::synchronous) != synchronous) continue;
    if (best == nullptr || each->step < best->step) best = each;
  }
  return best;
}

std::string counted(int workers) {
  return fmt::format("{} {}", workers, workers == 1 ? "worker" : "workers");
}

bool is_scaled(const Prediction& prediction) { return prediction.scale > 1; }

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }
std::string milliseconds(Seconds time) { return fmt::format("{:.1f}", 1e3 * time.count()); }

struct Quantity {
  std::string_view heading;
  std::function<std::string(const Prediction&)> text;
};

std::string table_text(const PlanSetting& setting, const std::vector<Prediction>& predictions,
                       const Quantity& quantity, const Emphasis& bold) {
  std::size_t width = 16;
  for (const std::string& strategy : setting.strategies) width = std::max(width, strategy.size());
  std::string out = fmt::format("\n{}\n{:<{}}", bold(quantity.heading), "workers", width);
  for (const int workers : setting.workers) out += fmt::format(" {:>10}", workers);
  out += '\n';
  for (const std::string& strategy : setting.strategies) {
    out += fmt::format("{:<{}}", strategy, width);
    for (const int workers : setting.workers) {
      const Prediction* const cell = find(of_size(predictions, workers), strategy);
      const std::string text = cell != nullptr ? quantity.text(*cell) : "";
      out += fmt::format(" {:>10}", text.empty() ? "-" : text);
    }
    out += '\n';
  }
  return out;
}

std::string heading_text(const PlanSetting& setting, const Emphasis& bold) {
  const Workload& workload = setting.workload;
  std::string out =
      bold(fmt::format("{}{} parameters, {} of computing per step, network {}",
                       setting.model.empty() ? "" : setting.model + ": ", workload.layout.numel,
                       base::readable_time(workload.step_time), workload.network.str()));
  out += fmt::format("\nautomatic densities and ranks are those of a run of {} steps\n",
                     workload.steps);
  if (setting.measured_batch == 0) return out;
  return out + fmt::format("computing: measured on one core of this machine, batch {}{}\n",
                           setting.measured_batch,
                           setting.measured_batch == setting.batch
                               ? ""
                               : fmt::format(", scaled to {}", setting.batch));
}

// Returns the metrics of strategies that exchange models, for the largest group: how often they
// exchange depends on training, and here on the made-up gradients.
std::string metrics_text(const PlanSetting& setting, const std::vector<Prediction>& predictions) {
  std::string out;
  for (const Prediction* each : of_size(predictions, std::ranges::max(setting.workers))) {
    if (each->sync_mode == SyncMode::synchronous || each->metrics.empty()) continue;
    std::vector<std::string> metrics;
    for (const Metric& metric : each->metrics) {
      if (!metric.group.empty()) continue;
      metrics.push_back(fmt::format("{} {:.3g}", metric.name, metric.value()));
    }
    out += fmt::format("{} with {} workers: {}\n", each->strategy, each->workers,
                       fmt::join(metrics, ", "));
  }
  return out;
}

// Returns each note once, with the numbers of workers to which it applies.
std::string notes_text(const std::vector<Prediction>& predictions, const Emphasis& bold) {
  struct Note {
    std::string_view strategy, text;
    std::vector<int> workers;
  };
  std::vector<Note> all;
  for (const Prediction& each : predictions) {
    for (const std::string& text : each.notes) {
      const auto same = std::ranges::find_if(all, [&](const Note& note) {
        return note.strategy == each.strategy && note.text == text;
      });
      if (same == all.end()) {
        all.push_back({each.strategy, text, {each.workers}});
      } else {
        same->workers.push_back(each.workers);
      }
    }
  }
  if (all.empty()) return "";
  std::string out = fmt::format("\n{}\n", bold("Notes"));
  for (const Note& note : all) {
    out += fmt::format("{}, {} workers: {}\n", note.strategy, fmt::join(note.workers, ", "),
                       note.text);
  }
  return out;
}

std::string choice(const Prediction& best) {
  return fmt::format("{}, {} ms a step, efficiency {} %", best.strategy, milliseconds(best.step),
                     percent(best.efficiency));
}

// Returns the other strategies of the same kind that are as good. Computing times vary from run to
// run, so the order of these is not certain.
std::string as_good_as(const Prediction& best, const Rows& rows) {
  std::vector<std::string_view> out;
  for (const Prediction* each : rows) {
    const bool alike =
        (each->sync_mode == SyncMode::synchronous) == (best.sync_mode == SyncMode::synchronous);
    if (each != &best && alike && each->step <= kAsGood * best.step) out.push_back(each->strategy);
  }
  return out.empty() ? "" : fmt::format(" (as good: {})", fmt::join(out, ", "));
}

// `beaten` says that a strategy which lets models differ is clearly faster somewhere.
std::string dense_advice(const std::vector<int>& as_good, const std::vector<int>& all,
                         bool beaten) {
  if (as_good.empty()) {
    return fmt::format("{} is not as good for any of these numbers of workers ({}).", kBaseline,
                       fmt::join(all, ", "));
  }
  const bool from_below = as_good.size() < all.size() &&
                          std::ranges::equal(as_good, std::span(all).first(as_good.size()));
  return fmt::format("{} workers {} is as good{}.",
                     from_below ? fmt::format("Up to {}", as_good.back())
                                : fmt::format("With {}", fmt::join(as_good, ", ")),
                     kBaseline, beaten ? " as anything that keeps all models equal" : ": use it");
}

// Returns the density that a strategy sends or the rank that it has; empty if it has neither.
std::string selection_text(const Prediction& prediction) {
  if (const Metric* const density = find_metric(prediction.metrics, "density")) {
    return fmt::format("{:.2g}", density->value());
  }
  const Metric* const rank = find_metric(prediction.metrics, "rank");
  return rank != nullptr ? fmt::format("rank {:.0f}", rank->value()) : "";
}

// Returns the tables, one per quantity.
std::string tables_text(const PlanSetting& setting, const std::vector<Prediction>& predictions,
                        const Emphasis& bold) {
  const Quantity quantities[] = {
      {"efficiency, %", [](const Prediction& each) { return percent(each.efficiency); }},
      {"step, ms", [](const Prediction& each) { return milliseconds(each.step); }},
      {"of it the strategy's own computing, ms",
       [](const Prediction& each) { return milliseconds(each.codec); }},
      {"sent per worker and step",
       [](const Prediction& each) { return base::readable_bytes(each.bytes_per_worker_step); }},
  };
  std::string out;
  for (const Quantity& quantity : quantities) {
    out += table_text(setting, predictions, quantity, bold);
  }
  if (std::ranges::any_of(predictions,
                          [](const Prediction& each) { return !selection_text(each).empty(); })) {
    out += table_text(setting, predictions, {"density, or the rank of matrices", selection_text},
                      bold);
  }
  if (std::ranges::none_of(predictions, is_scaled)) return out;
  const auto scale = [](const Prediction& each) {
    return is_scaled(each) ? fmt::format("1/{:.{}f}", each.scale, each.scale < 100 ? 1 : 0)
                           : std::string("all");
  };
  return out + table_text(setting, predictions,
                          {"scaled payloads: part of the parameters that was simulated, on links "
                           "as much slower",
                           scale},
                          bold);
}

}  // namespace

std::vector<std::string> plan_advice(const PlanSetting& setting,
                                     const std::vector<Prediction>& predictions) {
  std::vector<std::string> out;
  std::vector<int> compared, dense_as_good;
  bool beaten = false;
  std::vector<int> sizes = setting.workers;
  std::ranges::sort(sizes);
  for (const int workers : sizes) {
    const Rows rows = of_size(predictions, workers);
    const Prediction* const best = fastest(rows, true);
    const Prediction* const looser = fastest(rows, false);
    if (best == nullptr && looser == nullptr) continue;
    const Prediction& first = best != nullptr ? *best : *looser;
    std::string line =
        fmt::format("{}: {}{}", counted(workers), choice(first), as_good_as(first, rows));
    if (best != nullptr && looser != nullptr && looser->step < best->step) {
      line += fmt::format("; if models may differ for a while: {}", choice(*looser));
    }
    out.push_back(line);
    const Prediction* const dense = find(rows, kBaseline);
    if (dense == nullptr || best == nullptr) continue;
    compared.push_back(workers);
    if (dense->step > kAsGood * best->step) continue;
    dense_as_good.push_back(workers);
    beaten |= looser != nullptr && dense->step > kAsGood * looser->step;
  }
  if (!compared.empty()) out.push_back(dense_advice(dense_as_good, compared, beaten));
  return out;
}

std::string plan_text(const PlanSetting& setting, const std::vector<Prediction>& predictions,
                      const Emphasis& bold) {
  std::string out = heading_text(setting, bold) + tables_text(setting, predictions, bold) +
                    notes_text(predictions, bold);
  out += fmt::format("\n{}\n", bold("Best choice, by time per step"));
  for (const std::string& line : plan_advice(setting, predictions)) out += line + '\n';
  return out +
         "\nEfficiency is computing / step. The real strategies exchanged made-up gradients on "
         "simulated workers, each\non a link and a core of its own; their own computing counts as "
         "measured on this machine.\n" +
         metrics_text(setting, predictions);
}

std::string plan_json(const PlanSetting& setting, const Prediction& prediction) {
  nlohmann::ordered_json line = {
      {"strategy", prediction.strategy},
      {"workers", prediction.workers},
      {"step_seconds", prediction.step.count()},
      {"efficiency", prediction.efficiency},
      {"bytes_per_worker_step", prediction.bytes_per_worker_step},
      {"codec_seconds", prediction.codec.count()},
      {"wire_bound_seconds", prediction.wire_bound.count()},
      {"numel", setting.workload.layout.numel},
      {"step_time", setting.workload.step_time.count()},
      {"network", setting.workload.network.str()},
      {"steps", setting.workload.steps},
      {"scaled", is_scaled(prediction)},
      {"scale", prediction.scale},
  };
  for (const Metric& metric : prediction.metrics) {
    if (metric.group.empty()) line["detail"][metric.name] = metric.value();
  }
  if (!prediction.notes.empty()) line["notes"] = prediction.notes;
  return line.dump();
}

}  // namespace thinwire::plan
