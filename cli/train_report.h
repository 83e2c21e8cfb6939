// Shows the progress and the summary of `train`, and writes the files of --out.
#pragma once

#include <string>

#include "launch/console.h"
#include "observe/run_log.h"
#include "thinwire/types.h"
#include "trainer/train.h"

namespace thinwire::cli {

// The setting of a run, which its summary states next to the result.
struct TrainSetting {
  const trainer::TrainOptions& options;
  std::string transport;
  std::string network;  // empty: the real one
  int workers = 1;
  bool virtual_time = false;
};

enum class Summary { text, json, none };  // what stdout gets

class TrainEvents;

class TrainReport {
 public:
  // Opens DIR/run.jsonl if there is a directory; on a resume, lines of steps that will be repeated
  // are removed from it. All arguments outlive the report.
  TrainReport(launch::Io& io, const TrainSetting& setting, TrainEvents& events);

  trainer::Observer observer();
  void finish(const trainer::TrainResult& result, Summary summary);

 private:
  void step(const trainer::StepReport& report);
  void met(const trainer::TrainingLoss& training);
  void evaluated(const trainer::StepReport& report, const trainer::Evaluation& test);
  void note(const std::string& text);
  observe::Json step_event(const trainer::StepReport& report) const;
  observe::Json seconds_left(const trainer::StepReport& report) const;
  observe::Json summary_json(const trainer::TrainResult& result) const;
  void print_summary(const trainer::TrainResult& result);
  void print_stragglers(const trainer::TrainResult& result);

  launch::Io& io_;
  TrainSetting setting_;
  TrainEvents& events_;
  launch::Progress progress_;
  observe::RunLog log_;
  std::uint64_t bytes_ = 0;
  observe::Json training_loss_;  // of all workers; null before the first milestone
  // These are in real time; on sim the run has a clock of its own.
  std::uint64_t first_step_ = 0;
  double first_position_ = 0;
  Seconds first_time_{0};
  Seconds last_plain_line_{-1e9};
};

}  // namespace thinwire::cli
