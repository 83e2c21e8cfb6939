// What `train` shows while it runs and when it ends, and what it writes to --out.
#pragma once

#include <fstream>
#include <string>

#include "launch/console.h"
#include "thinwire/types.h"
#include "trainer/train.h"

namespace thinwire::cli {

// What the summary says about a run besides its result.
struct TrainSetting {
  const trainer::TrainOptions& options;
  std::string transport;
  std::string network;  // empty: the real one
  int workers = 1;
  bool virtual_time = false;
};

// Every line that only says how far a run is starts with this word.
inline constexpr std::string_view kProgressWord = "epoch ";

enum class Summary { text, json, none };  // what stdout gets

class TrainReport {
 public:
  // Opens DIR/run.jsonl if there is a directory; on a resume, lines of steps that will be repeated
  // are removed from it.
  TrainReport(launch::Io& io, const TrainSetting& setting);

  trainer::Observer observer();
  void finish(const trainer::TrainResult& result, Summary summary);

 private:
  void step(const trainer::StepReport& report);
  void met(const trainer::TrainingLoss& training);
  void evaluated(const trainer::StepReport& report, const trainer::Evaluation& test);
  void note(const std::string& text);
  std::string line(const trainer::StepReport& report) const;
  std::string summary_json(const trainer::TrainResult& result) const;
  void print_summary(const trainer::TrainResult& result);
  void print_stragglers(const trainer::TrainResult& result);
  // A line of run.jsonl, on disk when this returns, so that a run that is killed has its last
  // steps.
  void log(const std::string& line);
  void drop_repeated_steps(std::uint64_t first_step);

  launch::Io& io_;
  TrainSetting setting_;
  launch::Progress progress_;
  std::ofstream log_;
  std::uint64_t bytes_ = 0;
  std::string training_loss_;  // of all workers, if there was a step to tell it of
  // By the clock of whoever watches, which on sim is not that of the run.
  std::uint64_t first_step_ = 0;
  double first_position_ = 0;
  Seconds first_time_{0};
  Seconds last_plain_line_{-1e9};
};

}  // namespace thinwire::cli
