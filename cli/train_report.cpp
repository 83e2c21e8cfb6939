#include "cli/train_report.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/readable.h"
#include "cli/train_events.h"
#include "observe/progress_text.h"

namespace thinwire::cli {
namespace {

using observe::Json;
namespace fs = std::filesystem;

constexpr Seconds kPlainLineEvery{2};  // where there is no terminal to rewrite a line on

Json stragglers_json(const std::vector<trainer::LateWorker>& workers) {
  Json list = Json::array();
  for (const trainer::LateWorker& worker : workers) {
    list.push_back({{"rank", worker.rank},
                    {"host", worker.host},
                    {"compute_ratio", worker.compute_ratio},
                    {"waited_seconds", worker.waited.count()}});
  }
  return list;
}

Json detail(const std::vector<Metric>& metrics) {
  Json out = Json::object();
  for (const Metric& metric : metrics) {
    Json& place = metric.group.empty() ? out : out[metric.group];
    place[metric.name] = metric.value();
  }
  return out;
}

}  // namespace

TrainReport::TrainReport(launch::Io& io, const TrainSetting& setting, TrainEvents& events)
    : io_(io), setting_(setting), events_(events), progress_(io) {
  const std::string& out = setting.options.out;
  if (out.empty()) return;
  if (!log_.open(fs::path(out) / "run.jsonl", setting.options.resume)) {
    throw ConfigError(fmt::format("--out {}: run.jsonl cannot be written there", out));
  }
}

trainer::Observer TrainReport::observer() {
  trainer::Observer observer;
  observer.step = [this](const auto& report) { step(report); };
  observer.met = [this](const auto& training) { met(training); };
  observer.evaluated = [this](const auto& report, const auto& test) { evaluated(report, test); };
  observer.saved = [this](std::uint64_t step) { events_.saved(step); };
  observer.note = [this](const std::string& text) { note(text); };
  return observer;
}

// The first step is not typical, so it is not counted. Asynchronous workers are as far as all of
// them together, whatever this one has done.
Json TrainReport::seconds_left(const trainer::StepReport& report) const {
  const double done = report.position, all = static_cast<double>(report.steps);
  const double timed = done - first_position_;
  if (timed <= 0 || done >= all) return nullptr;
  return ((system_runtime().now() - first_time_) / std::max(timed, 1.0) * (all - done)).count();
}

Json TrainReport::step_event(const trainer::StepReport& report) const {
  return Json{{"step", report.step},
              {"steps", report.steps},
              {"position", report.position},
              {"epoch", report.epoch},
              {"seconds", report.time.count()},
              {"loss", report.loss},
              {"lr", report.learning_rate},
              {"bytes", report.bytes_sent},
              {"bytes_total", bytes_},
              {"seconds_compute", report.compute.count()},
              {"seconds_codec", report.codec.count()},
              {"seconds_wire", report.wire.count()},
              {"residual_ratio", report.residual_ratio},
              {"samples_per_second", report.samples_per_second},
              {"seconds_left", seconds_left(report)}};
}

void TrainReport::step(const trainer::StepReport& report) {
  bytes_ += report.bytes_sent;
  if (log_.is_open()) {
    if (first_step_ == 0 && setting_.options.resume) log_.drop_from(report.step);
    log_.write(Json{{"step", report.step},
                    {"epoch", report.epoch},
                    {"time", report.time.count()},
                    {"loss", report.loss},
                    {"lr", report.learning_rate},
                    {"bytes", report.bytes_sent},
                    {"seconds_compute", report.compute.count()},
                    {"seconds_codec", report.codec.count()},
                    {"seconds_wire", report.wire.count()},
                    {"residual_ratio", report.residual_ratio}});
  }
  const Seconds now = system_runtime().now();
  if (first_step_ == 0) {
    first_step_ = report.step;
    first_position_ = report.position;
    first_time_ = now;
  }
  const Json event = step_event(report);
  events_.step(event);
  if (io_.live) {
    progress_.detail(observe::step_text(event));
  } else if (now - last_plain_line_ >= kPlainLineEvery ||
             report.position >= static_cast<double>(report.steps)) {
    last_plain_line_ = now;
    progress_.stage(observe::step_text(event));
  }
}

void TrainReport::met(const trainer::TrainingLoss& training) {
  training_loss_ = training.loss;
  if (!log_.is_open()) return;
  log_.write(Json{{"step", training.last_step},
                  {"first_step", training.first_step},
                  {"train_loss", training.loss}});
}

void TrainReport::evaluated(const trainer::StepReport& report, const trainer::Evaluation& test) {
  if (log_.is_open()) {
    log_.write(Json{{"step", report.step},
                    {"time", report.time.count()},
                    {"test_loss", test.loss},
                    {"test_accuracy", test.accuracy}});
  }
  const Json event{{"step", report.step},           {"position", report.position},
                   {"epoch", report.epoch},         {"seconds", report.time.count()},
                   {"train_loss", training_loss_},  {"test_loss", test.loss},
                   {"test_accuracy", test.accuracy}};
  events_.evaluated(event);
  progress_.clear();
  io_.err << observe::evaluated_text(event) << '\n';
}

void TrainReport::note(const std::string& text) {
  events_.note(text);
  progress_.clear();
  io_.err << fmt::format("{}{}\n", launch::kErrorPrefix, text);
}

Json TrainReport::summary_json(const trainer::TrainResult& result) const {
  const trainer::TrainOptions& options = setting_.options;
  return Json{{"command", "train"},
              {"strategy", options.session.strategy},
              {"model", options.model},
              {"data", options.data},
              {"workers", setting_.workers},
              {"transport", setting_.transport},
              {"network", setting_.network.empty() ? Json() : Json(setting_.network)},
              {"steps", result.steps},
              {"samples", result.samples},
              {"loss", result.test.loss},
              {"accuracy", result.test.accuracy},
              {"accuracy_worst_worker", result.accuracy_worst_worker},
              {"seconds", result.total.count()},
              {"seconds_compute", result.compute.count()},
              {"seconds_codec", result.codec.count()},
              {"seconds_wire", result.wire.count()},
              {"seconds_wait", result.wait.count()},
              {"bytes_sent", result.bytes_sent},
              {"bytes_per_worker_step", result.bytes_per_worker_step},
              {"dense_bytes_per_worker_step", result.dense_bytes_per_worker_step},
              {"replicas_identical", result.replicas_identical},
              {"consensus_distance", result.consensus_distance},
              {"skipped_steps", result.skipped_steps},
              {"residual_ratio", result.residual_ratio},
              {"stragglers", stragglers_json(result.stragglers)},
              {"detail", detail(result.metrics)}};
}

void TrainReport::print_summary(const trainer::TrainResult& result) {
  const trainer::TrainOptions& options = setting_.options;
  const auto row = [&](std::string_view name, const std::string& value) {
    io_.out << fmt::format("  {:<22}{}\n", name, value);
  };
  const double steps = std::max(1.0, static_cast<double>(result.steps));
  io_.out << launch::bold(
      io_, fmt::format("{} on {}, {} workers over {}{}, strategy {}\n", options.model, options.data,
                       setting_.workers, setting_.transport,
                       setting_.network.empty() ? "" : " at " + setting_.network,
                       options.session.strategy));
  row("test accuracy", fmt::format("{:.2f} %  (loss {:.4f}, whole test set)",
                                   100 * result.test.accuracy, result.test.loss));
  row("steps",
      fmt::format(
          "{}  ({} samples{})", result.steps, result.samples,
          result.skipped_steps > 0 ? fmt::format(", {} steps skipped", result.skipped_steps) : ""));
  row(setting_.virtual_time ? "time (simulated)" : "time", base::readable_time(result.total));
  row("time per step", fmt::format("compute {}, codec {}, wire {}, waiting {}",
                                   base::readable_time(result.compute / steps),
                                   base::readable_time(result.codec / steps),
                                   base::readable_time(result.wire / steps),
                                   base::readable_time(result.wait / steps)));
  row("sent per worker, step",
      fmt::format("{}  (dense fp32: {})", base::readable_bytes(result.bytes_per_worker_step),
                  base::readable_bytes(result.dense_bytes_per_worker_step)));
  row("replicas", result.replicas_identical ? "bit-identical" : "DIFFERENT");
  print_stragglers(result);
}

void TrainReport::print_stragglers(const trainer::TrainResult& result) {
  constexpr std::size_t kNamed = 3;  // with many workers, more names would hide the rest
  const auto& late = result.stragglers;
  for (std::size_t i = 0; i < std::min(late.size(), kNamed); ++i) {
    const trainer::LateWorker& worker = late[i];
    io_.out << fmt::format(
        "  {:<22}rank {} ({}) computed {:.1f}x as long as the others; they waited {} for it, "
        "{:.0f} "
        "% of the time\n",
        i == 0 ? "stragglers" : "", worker.rank, worker.host, worker.compute_ratio,
        base::readable_time(worker.waited), 100 * worker.waited / result.total);
  }
  if (late.size() > kNamed) {
    io_.out << fmt::format("  {:<22}and {} more\n", "", late.size() - kNamed);
  }
}

void TrainReport::finish(const trainer::TrainResult& result, Summary wanted) {
  progress_.clear();
  const Json fields = summary_json(result);
  // A path need not be UTF-8.
  const std::string summary = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (!setting_.options.out.empty()) {
    observe::write_line(fs::path(setting_.options.out) / "summary.json", summary);
  }
  if (wanted == Summary::json) io_.out << summary << '\n';
  if (wanted == Summary::text) print_summary(result);
  io_.out.flush();
  events_.finish(fields);
}

}  // namespace thinwire::cli
