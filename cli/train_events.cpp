#include "cli/train_events.h"

#include "cli/hint.h"
#include "thinwire/version.h"

namespace thinwire::cli {
namespace {

using observe::Json;

Json options_json(const TrainSetting& setting) {
  const trainer::TrainOptions& options = setting.options;
  return Json{{"strategy", options.session.strategy},
              {"model", options.model},
              {"data", options.data},
              {"workers", setting.workers},
              {"transport", setting.transport},
              {"network", setting.network.empty() ? Json() : Json(setting.network)},
              {"steps", options.steps},
              {"batch", options.batch},
              {"lr", options.learning_rate},
              {"lr_schedule", options.lr_schedule},
              {"momentum", options.sgd.momentum},
              {"nesterov", options.sgd.nesterov},
              {"weight_decay", options.sgd.weight_decay},
              {"seed", options.seed},
              {"eval_every", options.eval_every},
              {"save_every", options.save_every},
              {"check_every", options.session.check_every},
              {"out", options.out.empty() ? Json() : Json(options.out)},
              {"resume", options.resume}};
}

}  // namespace

TrainEvents::TrainEvents(const std::string& file, observe::EventWriter::Open how,
                         std::optional<int> rank)
    : rank_(rank) {
  if (!file.empty()) writer_ = std::make_unique<observe::EventWriter>(file, how);
}

void TrainEvents::start(const TrainSetting& setting) {
  write("start", Json{{"version", observe::kEventVersion},
                      {"thinwire", THINWIRE_VERSION},
                      {"command", "train"},
                      {"options", options_json(setting)}});
}

void TrainEvents::joined(const std::vector<std::string>& hosts) {
  write("joined", Json{{"workers", hosts.size()}, {"hosts", hosts}});
}

void TrainEvents::saved(std::uint64_t step) { write("saved", Json{{"step", step}}); }

void TrainEvents::note(std::string_view text) {
  write("note", Json{{"rank", rank()}, {"text", text}});
}

void TrainEvents::warning(std::string_view text) {
  write("warning", Json{{"rank", rank()}, {"text", text}});
}

void TrainEvents::finish(const Json& summary) { write("finish", Json{{"summary", summary}}); }

void TrainEvents::error(const std::exception& error) noexcept {
  try {
    const auto* ours = dynamic_cast<const Error*>(&error);
    const ErrorFields fields = ours != nullptr ? ours->fields() : ErrorFields{};
    const std::string advice = hint(fields);
    Json event{{"text", error.what()}, {"hint", advice.empty() ? Json() : Json(advice)}};
    event.update(observe::to_json(fields));
    if (event["rank"].is_null()) event["rank"] = rank();
    write("error", event);
  } catch (const std::exception&) {
    // The caller reports the error itself.
  }
}

void TrainEvents::exit(const launch::RunFailure& failure) noexcept {
  try {
    write("exit", Json{{"text", failure.text},
                       {"rank", failure.rank == kNoRank ? Json() : Json(failure.rank)},
                       {"host", failure.host},
                       {"signal", failure.signal.empty() ? Json() : Json(failure.signal)},
                       {"code", failure.code ? Json(*failure.code) : Json()},
                       {"seconds", failure.seconds.count()},
                       {"stopped", failure.stopped}});
  } catch (const std::exception&) {
    // The launcher has printed it.
  }
}

void TrainEvents::write(std::string_view name, const Json& fields) {
  if (writer_) writer_->write(name, fields);
}

}  // namespace thinwire::cli
