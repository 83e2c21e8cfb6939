// For tests: runs strategies that exchange models on several ranks, without a trainer. A function
// takes the place of the optimizer, and on the simulator another one says how long a step takes.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "testing/runtimes.h"
#include "testing/strategy_driver.h"
#include "thinwire/strategy.h"
#include "transport/backends.h"

namespace thinwire::test {

struct ModelRun {
  std::string spec = "gossip";
  int workers = 4;
  std::size_t numel = 50;
  std::uint64_t steps = 40;           // of each worker, unless options.samples ends the run before
  RunOptions options = {.steps = 1};  // a run that is too short for a warm-up
  std::string backend = "sim";
  std::optional<Network> network;
  std::string fault;
  // The parameters before the first step, the change of a parameter in a step, and the time of a
  // step.
  std::function<float(int rank, std::size_t element)> start = [](int, std::size_t) { return 0.5f; };
  std::function<float(int rank, std::uint64_t step, float now)> movement =
      [](int, std::uint64_t, float) { return 0.0f; };
  std::function<double(int rank, std::uint64_t step)> seconds = [](int, std::uint64_t) {
    return 0.01;
  };
  std::function<double(std::uint64_t step)> learning_rate = [](std::uint64_t) { return 0.1; };
  std::uint64_t samples_per_step = 1;
};

struct ModelRecord {
  std::vector<float> before_end, params;
  std::vector<double> ended;  // the time at which each step ended
  std::vector<Metric> metrics;
  Stats stats;
  std::uint64_t steps = 0, messages_sent = 0, bytes_sent = 0, global_samples = 0;
};

// The function `at_step` is called after each step; it may check the strategy, or throw.
using AtStep = std::function<void(StrategyDriver&, MutFloats params)>;

inline void train_model(const ModelRun& run, Transport& wire, ModelRecord& record,
                        const AtStep& at_step = {}) {
  const Layout layout{{{"all", 0, {run.numel}}}, run.numel};
  std::vector<float>& params = record.params;
  std::vector<float> grads(run.numel);
  if (params.empty()) {
    for (std::size_t i = 0; i < run.numel; ++i) params.push_back(run.start(wire.rank(), i));
  }
  StrategyDriver driver(wire, run.spec, layout, run.options);
  driver.begin(params);
  const auto over = [&] {
    const std::uint64_t target = run.options.samples;
    return driver.step() >= run.steps || (target > 0 && driver.global_samples() >= target);
  };
  while (!over()) {
    const std::uint64_t step = driver.step();
    wire.sleep(Seconds(run.seconds(wire.rank(), step)));
    if (!driver.exchange(grads, params).skip) {
      for (float& value : params) value += run.movement(wire.rank(), step, value);
    }
    driver.finish_step(params, run.samples_per_step, run.learning_rate(step));
    record.ended.push_back(wire.now().count());
    if (at_step) at_step(driver, params);
  }
  record.before_end = params;
  record.steps = driver.step();
  record.global_samples = driver.global_samples();
  driver.end(params);
  record.metrics = driver.metrics();
  record.stats = driver.stats();
  record.messages_sent = wire.traffic().messages_sent;
  record.bytes_sent = wire.traffic().bytes_sent;
}

// Runs the strategy on all ranks. Returns one record per rank.
inline std::vector<ModelRecord> run_strategy(const ModelRun& run, const AtStep& at_step = {}) {
  std::vector<ModelRecord> records(static_cast<std::size_t>(run.workers));
  transport::BackendOptions options;
  options.size = run.workers;
  options.network = run.network;
  options.fault = run.fault;
  run_workers(run.backend, options, [&](Transport& wire) {
    train_model(run, wire, records[static_cast<std::size_t>(wire.rank())], at_step);
  });
  return records;
}

// Returns the mean over the ranks of one element, before end() made the models equal.
inline double mean_of(const std::vector<ModelRecord>& records, std::size_t element) {
  double sum = 0;
  for (const ModelRecord& record : records) sum += record.before_end[element];
  return sum / static_cast<double>(records.size());
}

// Returns whether the models of all ranks are equal after end().
inline bool replicas_are_the_same(const std::vector<ModelRecord>& records) {
  for (const ModelRecord& record : records) {
    if (record.params != records[0].params) return false;
  }
  return true;
}

// Expects that workers end when all together have taken run.options.samples samples, and that each
// takes as many of them as it has time for: rank `slow` takes `factor` times longer for a step.
inline void expect_work_by_speed(ModelRun run, int slow, double factor) {
  run.steps = 100'000;
  run.seconds = [=](int rank, std::uint64_t) { return rank == slow ? 0.01 * factor : 0.01; };
  const auto records = run_strategy(run);
  std::uint64_t samples = 0;
  for (const ModelRecord& record : records) {
    samples += run.samples_per_step * record.steps;
    EXPECT_EQ(record.global_samples, records[0].global_samples);
  }
  EXPECT_GE(samples, run.options.samples);
  EXPECT_LT(samples, run.options.samples + run.options.samples / 10);
  const auto steps = [&](int rank) {
    return static_cast<double>(records[static_cast<std::size_t>(rank)].steps);
  };
  EXPECT_NEAR(steps((slow + 1) % run.workers) / steps(slow), factor, 0.1 * factor);
  EXPECT_TRUE(replicas_are_the_same(records));
}

// The state and the model of each rank at a checkpoint.
struct ModelCheckpoint {
  std::uint64_t step = 0;
  std::vector<Payload> states;
  std::vector<std::vector<float>> models;
};

// Runs the strategy and returns the checkpoint after `step` steps.
inline ModelCheckpoint checkpoint_at(const ModelRun& run, std::uint64_t step) {
  const auto ranks = static_cast<std::size_t>(run.workers);
  ModelCheckpoint out{step, std::vector<Payload>(ranks), std::vector<std::vector<float>>(ranks)};
  run_strategy(run, [&](StrategyDriver& driver, MutFloats params) {
    if (driver.step() != step) return;
    driver.quiesce(params);
    const auto rank = static_cast<std::size_t>(driver.wire().rank());
    out.states[rank] = driver.save();
    out.models[rank].assign(params.begin(), params.end());
  });
  return out;
}

// Resumes from the checkpoint and ends the run without a further step. The records have the models
// and the samples.
inline std::vector<ModelRecord> resume_and_end(const ModelRun& run,
                                               const ModelCheckpoint& checkpoint) {
  std::vector<ModelRecord> records(static_cast<std::size_t>(run.workers));
  transport::BackendOptions options;
  options.size = run.workers;
  run_workers(run.backend, options, [&](Transport& wire) {
    const auto rank = static_cast<std::size_t>(wire.rank());
    ModelRecord& record = records[rank];
    const Layout layout{{{"all", 0, {run.numel}}}, run.numel};
    StrategyDriver driver(wire, run.spec, layout, run.options, {}, checkpoint.step);
    driver.load(checkpoint.states[rank]);
    record.params = checkpoint.models[rank];
    driver.begin(record.params);
    driver.end(record.params);
    record.global_samples = driver.global_samples();
  });
  return records;
}

}  // namespace thinwire::test
