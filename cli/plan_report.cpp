#include "cli/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/readable.h"

namespace thinwire::cli {
namespace {

constexpr std::string_view kBaseline = "dense";
// A strategy counts as good if its step takes at most this many times as long as the best one.
constexpr double kAsGood = 1.05;

using Rows = std::vector<const plan::Prediction*>;

// The predictions for that many workers, in the order asked for.
Rows of_size(const std::vector<plan::Prediction>& predictions, int workers) {
  Rows out;
  for (const plan::Prediction& each : predictions) {
    if (each.workers == workers) out.push_back(&each);
  }
  return out;
}

const plan::Prediction* find(const Rows& rows, std::string_view strategy) {
  const auto found = std::ranges::find_if(
      rows, [&](const plan::Prediction* each) { return each->strategy == strategy; });
  return found == rows.end() ? nullptr : *found;
}

// Returns the best of the strategies that keep replicas the same after every step, or of the
// others; null if there is none.
const plan::Prediction* fastest(const Rows& rows, bool synchronous) {
  const plan::Prediction* best = nullptr;
  for (const plan::Prediction* each : rows) {
    if ((each->sync_mode == SyncMode::synchronous) != synchronous) continue;
    if (best == nullptr || each->step < best->step) best = each;
  }
  return best;
}

bool is_scaled(const plan::Prediction& prediction) { return prediction.scale > 1; }

std::string counted(int workers) {
  return fmt::format("{} {}", workers, workers == 1 ? "worker" : "workers");
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }
std::string milliseconds(Seconds time) { return fmt::format("{:.1f}", 1e3 * time.count()); }

struct Quantity {
  std::string_view heading;
  std::function<std::string(const plan::Prediction&)> text;
};

void print_table(launch::Io& io, const PlanSetting& setting,
                 const std::vector<plan::Prediction>& predictions, const Quantity& quantity) {
  std::size_t width = 16;
  for (const std::string& strategy : setting.strategies) width = std::max(width, strategy.size());
  io.out << '\n'
         << launch::bold(io, quantity.heading) << '\n'
         << fmt::format("{:<{}}", "workers", width);
  for (const int workers : setting.workers) io.out << fmt::format(" {:>10}", workers);
  io.out << '\n';
  for (const std::string& strategy : setting.strategies) {
    io.out << fmt::format("{:<{}}", strategy, width);
    for (const int workers : setting.workers) {
      const plan::Prediction* const cell = find(of_size(predictions, workers), strategy);
      io.out << fmt::format(" {:>10}", cell != nullptr ? quantity.text(*cell) : "-");
    }
    io.out << '\n';
  }
}

void print_heading(launch::Io& io, const PlanSetting& setting) {
  const plan::Workload& workload = setting.workload;
  io.out << launch::bold(io,
                         fmt::format("{}{} parameters, {} of computing per step, network {}",
                                     setting.model.empty() ? "" : setting.model + ": ",
                                     workload.layout.numel, base::readable_time(workload.step_time),
                                     workload.network.str()))
         << '\n';
  if (setting.measured_batch == 0) return;
  io.out << fmt::format(
      "computing: measured on one core of this machine, batch {}{}\n", setting.measured_batch,
      setting.measured_batch == setting.batch ? "" : fmt::format(", scaled to {}", setting.batch));
}

// What strategies that exchange models say about the rehearsed run: how often that was depends on
// training, and here on the made-up gradients.
void print_rates(launch::Io& io, const PlanSetting& setting,
                 const std::vector<plan::Prediction>& predictions) {
  const Rows largest = of_size(predictions, std::ranges::max(setting.workers));
  for (const plan::Prediction* each : largest) {
    if (each->sync_mode == SyncMode::synchronous || each->metrics.empty()) continue;
    std::vector<std::string> metrics;
    for (const Metric& metric : each->metrics) {
      if (!metric.group.empty()) continue;
      metrics.push_back(fmt::format("{} {:.3g}", metric.name, metric.value()));
    }
    io.out << fmt::format("{} with {} workers: {}\n", each->strategy, each->workers,
                          fmt::join(metrics, ", "));
  }
}

// Many sizes often have the same to say.
void print_notes(launch::Io& io, const std::vector<plan::Prediction>& predictions) {
  struct Said {
    std::string_view strategy, note;
    std::vector<int> workers;
  };
  std::vector<Said> all;
  for (const plan::Prediction& each : predictions) {
    for (const std::string& note : each.notes) {
      const auto same = std::ranges::find_if(all, [&](const Said& said) {
        return said.strategy == each.strategy && said.note == note;
      });
      if (same == all.end()) {
        all.push_back({each.strategy, note, {each.workers}});
      } else {
        same->workers.push_back(each.workers);
      }
    }
  }
  if (!all.empty()) io.out << '\n' << launch::bold(io, "Notes") << '\n';
  for (const Said& said : all) {
    io.out << fmt::format("{}, {} workers: {}\n", said.strategy, fmt::join(said.workers, ", "),
                          said.note);
  }
}

void print_method(launch::Io& io, const PlanSetting& setting,
                  const std::vector<plan::Prediction>& predictions) {
  io.out << "\nEfficiency is computing / step. The real strategies exchanged made-up gradients on "
            "simulated workers, each\non a link and a core of its own; their own computing counts "
            "as measured on this machine.\n";
  print_rates(io, setting, predictions);
}

std::string choice(const plan::Prediction& best) {
  return fmt::format("{}, {} ms a step, efficiency {} %", best.strategy, milliseconds(best.step),
                     percent(best.efficiency));
}

// What computing takes varies from run to run, so the order of these is not certain.
std::string as_good_as(const plan::Prediction& best, const Rows& rows) {
  std::vector<std::string_view> out;
  for (const plan::Prediction* each : rows) {
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
    return fmt::format("Nowhere is {} as good ({} workers).", kBaseline, fmt::join(all, ", "));
  }
  const bool from_below = as_good.size() < all.size() &&
                          std::ranges::equal(as_good, std::span(all).first(as_good.size()));
  return fmt::format("{} workers {} is as good{}.",
                     from_below ? fmt::format("Up to {}", as_good.back())
                                : fmt::format("With {}", fmt::join(as_good, ", ")),
                     kBaseline, beaten ? " as anything that keeps all models equal" : ": use it");
}

}  // namespace

std::vector<std::string> plan_advice(const PlanSetting& setting,
                                     const std::vector<plan::Prediction>& predictions) {
  std::vector<std::string> out;
  std::vector<int> told, dense_as_good;
  bool beaten = false;
  std::vector<int> sizes = setting.workers;
  std::ranges::sort(sizes);
  for (const int workers : sizes) {
    const Rows rows = of_size(predictions, workers);
    const plan::Prediction* const best = fastest(rows, true);
    const plan::Prediction* const looser = fastest(rows, false);
    if (best == nullptr && looser == nullptr) continue;
    const plan::Prediction& first = best != nullptr ? *best : *looser;
    std::string line =
        fmt::format("{}: {}{}", counted(workers), choice(first), as_good_as(first, rows));
    if (best != nullptr && looser != nullptr && looser->step < best->step) {
      line += fmt::format("; if models may differ for a while: {}", choice(*looser));
    }
    out.push_back(line);
    const plan::Prediction* const dense = find(rows, kBaseline);
    if (dense == nullptr || best == nullptr) continue;
    told.push_back(workers);
    if (dense->step > kAsGood * best->step) continue;
    dense_as_good.push_back(workers);
    beaten |= looser != nullptr && dense->step > kAsGood * looser->step;
  }
  if (!told.empty()) out.push_back(dense_advice(dense_as_good, told, beaten));
  return out;
}

void print_plan(launch::Io& io, const PlanSetting& setting,
                const std::vector<plan::Prediction>& predictions) {
  print_heading(io, setting);
  const Quantity quantities[] = {
      {"efficiency, %", [](const plan::Prediction& each) { return percent(each.efficiency); }},
      {"step, ms", [](const plan::Prediction& each) { return milliseconds(each.step); }},
      {"of it the strategy's own computing, ms",
       [](const plan::Prediction& each) { return milliseconds(each.codec); }},
      {"sent per worker and step",
       [](const plan::Prediction& each) {
         return base::readable_bytes(each.bytes_per_worker_step);
       }},
  };
  for (const Quantity& quantity : quantities) print_table(io, setting, predictions, quantity);
  if (std::ranges::any_of(predictions, is_scaled)) {
    const auto text = [](const plan::Prediction& each) {
      return is_scaled(each) ? fmt::format("1/{:.{}f}", each.scale, each.scale < 100 ? 1 : 0)
                             : std::string("all");
    };
    print_table(io, setting, predictions,
                {"scaled payloads: part of the parameters that was simulated, on links as much "
                 "slower",
                 text});
  }
  print_notes(io, predictions);
  io.out << '\n' << launch::bold(io, "Best choice, by time per step") << '\n';
  for (const std::string& line : plan_advice(setting, predictions)) io.out << line << '\n';
  print_method(io, setting, predictions);
}

void print_plan_json(launch::Io& io, const PlanSetting& setting,
                     const plan::Prediction& prediction) {
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
      {"scaled", is_scaled(prediction)},
      {"scale", prediction.scale},
  };
  for (const Metric& metric : prediction.metrics) {
    if (metric.group.empty()) line["detail"][metric.name] = metric.value();
  }
  if (!prediction.notes.empty()) line["notes"] = prediction.notes;
  io.out << line.dump() << '\n' << std::flush;
}

}  // namespace thinwire::cli
