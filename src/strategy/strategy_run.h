// For tests: a strategy at work on several ranks, without a trainer.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "thinwire/bytes.h"
#include "thinwire/engines.h"
#include "thinwire/random.h"
#include "thinwire/strategy.h"

namespace thinwire {

// Multiples of 2^-8 below 8 in magnitude, a few of them large: their sums over ranks and steps are
// exact in a float, and their roundings to bf16 are not.
inline float grid_gradient(int rank, std::uint64_t step, std::size_t element) {
  const auto stream = step << 16 | static_cast<std::uint64_t>(rank);
  const auto block = philox(11, stream, element, Purpose::test);
  const auto size = static_cast<std::int32_t>(block[0] >> 21);  // 11 bits
  const std::int32_t scaled = block[1] % 16 == 0 ? size : size / 16;
  return static_cast<float>(block[2] % 2 == 0 ? scaled : -scaled) * 0x1.0p-8f;
}

struct StrategyRun {
  std::string spec = "topk";
  int workers = 2;
  std::size_t numel = 1000;
  std::uint64_t steps = 3;
  RunPlan plan;
  std::function<float(int rank, std::uint64_t step, std::size_t element)> gradient = grid_gradient;
  std::vector<std::size_t> shape;   // of the only tensor; empty: one dimension
  std::vector<TensorSlot> tensors;  // or several
};

struct RankRecord {
  std::vector<std::vector<float>> grads;  // after each step
  std::vector<bool> skipped;
  Payload state;
  std::vector<Figure> figures;
  std::uint64_t bytes_sent = 0, messages_sent = 0;
  Stats stats;
};

inline std::vector<RankRecord> play(const StrategyRun& run, const Payload* resume_state = nullptr,
                                    std::uint64_t first_step = 0) {
  std::vector<RankRecord> records(static_cast<std::size_t>(run.workers));
  JoinOptions options;
  options.size = run.workers;
  run_workers("threads", options, [&](Transport& wire) {
    RankRecord& record = records[static_cast<std::size_t>(wire.rank())];
    Layout layout{{{"all", 0, run.shape.empty() ? std::vector{run.numel} : run.shape}}, run.numel};
    if (!run.tensors.empty()) layout.tensors = run.tensors;
    std::vector<float> grads(run.numel), params(run.numel, 0.5f);
    const auto strategy = make_strategy(run.spec);
    if (resume_state != nullptr) strategy->load(resume_state[wire.rank()]);
    StepContext context{first_step, {params, grads, layout}, wire, record.stats, false, run.plan,
                        nullptr};
    strategy->begin(context);
    for (; context.step < run.steps; ++context.step) {
      for (std::size_t i = 0; i < run.numel; ++i) {
        grads[i] = run.gradient(wire.rank(), context.step, i);
      }
      context.skip = false;
      strategy->after_backward(context);
      record.grads.push_back(grads);
      record.skipped.push_back(context.skip);
    }
    strategy->end(context);
    strategy->save(record.state);
    record.figures = strategy->figures();
    record.bytes_sent = wire.traffic().bytes_sent;
    record.messages_sent = wire.traffic().messages_sent;
  });
  return records;
}

// The figure of that name over all ranks.
inline double figure(const std::vector<RankRecord>& records, std::string_view name) {
  double amount = 0, of = 0;
  for (const RankRecord& record : records) {
    for (const Figure& each : record.figures) {
      if (each.name == name) amount += each.amount, of += each.of;
    }
  }
  return of == 0 ? 0 : amount / of;
}

// What a sparse strategy holds back, read from its checkpoint.
inline std::vector<float> residual_of(const RankRecord& record) {
  ByteReader reader(record.state, "state");
  reader.get<std::uint32_t>();
  std::vector<float> values(reader.get<std::uint64_t>());
  const Bytes bytes = reader.take(values.size() * sizeof(float));
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

}  // namespace thinwire
