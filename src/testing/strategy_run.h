// For tests: runs a strategy on several ranks, without a trainer.
#pragma once

#include <bit>
#include <cmath>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/random.h"
#include "strategy/common/divergence_guard.h"
#include "strategy/common/state.h"
#include "testing/strategy_driver.h"
#include "thinwire/collective.h"
#include "thinwire/launch.h"
#include "thinwire/strategy.h"

namespace thinwire::test {

// Returns multiples of 2^-8 below 8 in magnitude, a few of them large. Their sums over ranks and
// steps are exact in a float; their values in bf16 are not.
inline float grid_gradient(int rank, std::uint64_t step, std::size_t element) {
  const auto stream = step << 16 | static_cast<std::uint64_t>(rank);
  const auto block = base::philox(11, stream, element, base::Purpose::test);
  const auto size = static_cast<std::int32_t>(block[0] >> 21);  // 11 bits
  const std::int32_t scaled = block[1] % 16 == 0 ? size : size / 16;
  return static_cast<float>(block[2] % 2 == 0 ? scaled : -scaled) * 0x1.0p-8f;
}

struct StrategyRun {
  std::string spec = "topk";
  int workers = 2;
  std::size_t numel = 1000;
  std::uint64_t steps = 3;
  RunOptions options;
  std::function<float(int rank, std::uint64_t step, std::size_t element)> gradient = grid_gradient;
  std::vector<std::size_t> shape;   // of the only tensor; empty: one dimension of numel
  std::vector<TensorSlot> tensors;  // if not empty, used instead of `shape`
};

struct RankRecord {
  std::vector<std::vector<float>> grads;  // after each step
  std::vector<bool> skipped;
  Payload state;
  std::vector<Metric> metrics;
  std::uint64_t bytes_sent = 0, messages_sent = 0;
  Stats stats;
};

// Runs the strategy on all ranks, from `first_step` on if a state is given for each rank. Returns
// one record per rank.
inline std::vector<RankRecord> run_strategy(const StrategyRun& run,
                                            const Payload* resume_state = nullptr,
                                            std::uint64_t first_step = 0) {
  std::vector<RankRecord> records(static_cast<std::size_t>(run.workers));
  JoinOptions options;
  options.size = run.workers;
  run_workers("threads", options, [&](Transport& wire) {
    RankRecord& record = records[static_cast<std::size_t>(wire.rank())];
    Layout layout{{{"all", 0, run.shape.empty() ? std::vector{run.numel} : run.shape}}, run.numel};
    if (!run.tensors.empty()) layout.tensors = run.tensors;
    std::vector<float> grads(run.numel), params(run.numel, 0.5f);
    StrategyDriver driver(wire, run.spec, layout, run.options, {}, first_step);
    if (resume_state != nullptr) driver.load(resume_state[wire.rank()]);
    driver.begin(params);
    while (driver.step() < run.steps) {
      for (std::size_t i = 0; i < run.numel; ++i) {
        grads[i] = run.gradient(wire.rank(), driver.step(), i);
      }
      record.skipped.push_back(driver.exchange(grads, params).skip);
      record.grads.push_back(grads);
    }
    record.state = driver.save();
    record.metrics = driver.metrics();
    record.stats = driver.stats();
    record.bytes_sent = wire.traffic().bytes_sent;
    record.messages_sent = wire.traffic().messages_sent;
  });
  return records;
}

// Returns the warnings that rank 0 logs when the run begins, or goes on from these states.
inline std::vector<std::string> warnings_of(const StrategyRun& run,
                                            const Payload* resume_state = nullptr) {
  std::vector<std::string> out;
  const LogSink log = [&](LogLevel level, std::string_view text) {
    if (level >= LogLevel::warning) out.emplace_back(text);
  };
  JoinOptions options;
  options.size = run.workers;
  run_workers("threads", options, [&](Transport& wire) {
    const Layout layout{{{"all", 0, {run.numel}}}, run.numel};
    StrategyDriver driver(wire, run.spec, layout, run.options, wire.rank() == 0 ? log : LogSink());
    if (resume_state != nullptr) driver.load(resume_state[wire.rank()]);
    driver.begin();
  });
  return out;
}

// Returns the residual of a sparse strategy, read from its checkpoint.
inline std::vector<float> residual_of(const RankRecord& record) {
  base::ByteReader reader(record.state, "state");
  reader.get<std::uint32_t>();
  return strategy::get_floats(reader);
}

// Returns the residual plus, if a server runs on this rank, the entries that the server withholds;
// for all numel elements.
inline std::vector<float> held_back(const RankRecord& record, int rank, std::size_t numel) {
  base::ByteReader reader(record.state, "state");
  reader.get<std::uint32_t>();
  std::vector<float> held = strategy::get_floats(reader);  // none on a rank that only serves
  held.resize(numel, 0.0f);
  strategy::get_floats(reader);    // velocity
  strategy::get_floats(reader);    // ... of small tensors
  reader.take(4 + 2 * 4 + 9 * 8);  // warnings, density and coverage
  strategy::DivergenceGuard().load(reader);
  if (reader.left() == 0) return held;
  const auto shards = reader.get<std::uint64_t>();
  for (std::uint64_t shard = 0; shard < shards; ++shard) {  // skips the mask of the shard
    reader.take(reader.get<std::uint64_t>() * 4);
  }
  const std::vector<float> withheld = strategy::get_floats(reader);
  const std::size_t begin = share_of(numel, rank, static_cast<int>(shards)).begin;
  for (std::size_t i = 0; i < withheld.size(); ++i) held[begin + i] += withheld[i];
  return held;
}

// Returns the largest difference, over the elements, between the sum of all gradients and the sum
// of what was applied and of all residuals. Ranks below first_worker have no gradients.
inline double imbalance(const StrategyRun& run, const std::vector<RankRecord>& records,
                        int first_worker = 0) {
  std::vector<double> open(run.numel);
  for (int rank = 0; rank < run.workers; ++rank) {
    const auto held = held_back(records[static_cast<std::size_t>(rank)], rank, run.numel);
    for (std::size_t i = 0; i < run.numel; ++i) open[i] -= static_cast<double>(held[i]);
    for (std::uint64_t step = 0; step < run.steps && rank >= first_worker; ++step) {
      for (std::size_t i = 0; i < run.numel; ++i) {
        open[i] += static_cast<double>(run.gradient(rank, step, i));
      }
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < run.numel; ++i) {
    for (const auto& grads : records[0].grads) {
      open[i] -= static_cast<double>(grads[i]) * (run.workers - first_worker);
    }
    worst = std::max(worst, std::abs(open[i]));
  }
  return worst;
}

// The mean over P workers is exact only if P is a power of two.
inline double allowed_imbalance(int workers) {
  return std::has_single_bit(static_cast<unsigned>(workers)) ? 0 : 1e-4;
}

}  // namespace thinwire::test
