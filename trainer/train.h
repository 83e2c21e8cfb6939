// Training: its options, its progress and its result. This header needs no torch type.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "thinwire/session.h"
#include "trainer/data/dataset.h"

namespace thinwire::trainer {

// A worker whose computing takes `factor` times as long.
struct Straggler {
  int rank = 0;
  double factor = 1;
};

struct TrainOptions {
  std::string model = "lenet";
  std::string data = "digits";
  SessionOptions session;
  SgdConfig sgd{0.9f, 0, false};
  double learning_rate = 0.02;
  std::string lr_schedule = "constant";
  std::uint64_t seed = 1;
  std::size_t batch = 32;   // examples per worker and step
  std::uint64_t steps = 0;  // of the whole run; total_steps() computes it from epochs or samples
  std::uint64_t eval_every = 0;  // steps; 0: only at the end
  std::uint64_t save_every = 0;  // steps; 0: only at the end, if there is a directory
  std::uint64_t keep = 3;        // checkpoints
  std::string out;               // directory; empty: nothing is written
  bool resume = false;
  Seconds step_time{0};  // what computing a step takes; 0: as measured
  std::vector<Straggler> slow;
};

// The length of a run in one of three units. Exactly one of them is not 0.
struct RunLength {
  double epochs = 0;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;  // of all workers together
};
std::uint64_t total_steps(const RunLength& length, std::size_t examples, std::size_t batch,
                          int workers);
// Returns how many of the ranks train; some strategies have ranks that only serve. Throws
// ConfigError if the spec is not valid.
int training_workers(const std::string& strategy, int ranks);

struct Evaluation {
  double loss = 0;      // mean over the whole test set
  double accuracy = 0;  // share of right answers
};

// One step of rank 0; a line of run.jsonl.
struct StepReport {
  std::uint64_t step = 0;  // just finished, from 1
  std::uint64_t steps = 0;
  double position = 0;  // of all workers, in steps: a free worker may be ahead of it or behind
  double epoch = 0;
  double loss = 0;                        // of this worker's batch alone
  Seconds time{0};                        // since the start, resumed runs included
  Seconds compute{0}, codec{0}, wire{0};  // of this step
  std::uint64_t bytes_sent = 0;           // by this worker in this step
  double residual_ratio = 0;
  double learning_rate = 0;
  double samples_per_second = 0;  // of all workers, so far
};

// The mean loss over the examples of all workers from one milestone to the next. Workers exchange
// their losses only there (to test, to save and at the end), because doing so in every step would
// cost an exchange.
struct TrainingLoss {
  std::uint64_t first_step = 0, last_step = 0;  // from 1, both included
  double loss = 0;
};

// The callbacks run on rank 0's training thread.
struct Observer {
  std::function<void(const StepReport&)> step = [](const StepReport&) {};
  std::function<void(const TrainingLoss&)> met = [](const TrainingLoss&) {};
  std::function<void(const StepReport&, const Evaluation&)> evaluated = [](const auto&...) {};
  std::function<void(std::uint64_t step)> saved = [](std::uint64_t) {
  };  // a checkpoint, by all ranks
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

// A worker that the others had to wait for.
struct LateWorker {
  int rank = 0;
  std::string host;
  // The ratio of its time between exchanges (computing, waiting for input, writing the log) to the
  // median of the others.
  double compute_ratio = 1;
  Seconds waited{0};  // by the others for it, on average; waits for several overlap
};

struct TrainResult {
  std::uint64_t steps = 0, samples = 0;
  Evaluation test;
  double accuracy_worst_worker = 0;
  Seconds total{0};                                // start to end
  Seconds compute{0}, codec{0}, wire{0}, wait{0};  // means over the workers
  std::uint64_t bytes_sent = 0;                    // by all workers
  double bytes_per_worker_step = 0;
  double dense_bytes_per_worker_step = 0;
  bool replicas_identical = false;
  double consensus_distance = 0;  // of the workers to their mean before the end; see Stats
  std::uint64_t skipped_steps = 0;
  double residual_ratio = 0;
  std::vector<Metric> metrics;  // what the strategy says about itself
  std::size_t parameters = 0;
  std::vector<LateWorker> stragglers;  // whose lateness mattered, worst first
};

// Runs one worker; every rank of the group calls it. The result is the same on every rank.
TrainResult train(Transport& wire, const TrainOptions& options, const DataPair& data,
                  const Observer& observer);

// Checks everything that can be wrong about the options without a group: names, numbers, the pair
// of model and data. Returns the number of parameters; throws ConfigError if something is wrong.
std::size_t check(const TrainOptions& options, const DataPair& data);

// Throws ConfigError if a rank has no checkpoint of this run, with that number of parameters, to
// resume from. Whether all ranks have the same one is checked when they have joined.
void check_resume(const TrainOptions& options, std::size_t parameters, int rank, int workers);

// The name of a model and one line of help about it.
struct ModelHelp {
  std::string_view name, help;
};
// Returns all models, in the order of their list.
std::vector<ModelHelp> model_list();

}  // namespace thinwire::trainer
