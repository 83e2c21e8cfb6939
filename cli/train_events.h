// The event stream of `train --events FILE`; docs/events.md lists the events.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/train_report.h"
#include "launch/launcher.h"
#include "observe/events.h"

namespace thinwire::cli {

// Writes the event stream; writes nothing without a file. Rank 0 reports the progress of the run;
// every rank adds its own warnings and its error. Any thread may call.
class TrainEvents {
 public:
  // `rank` is nullopt where one process runs all ranks, or only starts them.
  TrainEvents(const std::string& file, observe::EventWriter::Open how, std::optional<int> rank);

  void start(const TrainSetting& setting);
  void joined(const std::vector<std::string>& hosts);
  void step(const observe::Json& event) { write("step", event); }
  void evaluated(const observe::Json& event) { write("evaluated", event); }
  void saved(std::uint64_t step);
  void note(std::string_view text);
  void warning(std::string_view text);
  void finish(const observe::Json& summary);
  // These never throw: the error itself matters more than its record.
  void error(const std::exception& error) noexcept;
  void exit(const launch::RunFailure& failure) noexcept;

 private:
  void write(std::string_view name, const observe::Json& fields);
  observe::Json rank() const { return rank_ ? observe::Json(*rank_) : observe::Json(); }

  std::unique_ptr<observe::EventWriter> writer_;
  std::optional<int> rank_;
};

}  // namespace thinwire::cli
