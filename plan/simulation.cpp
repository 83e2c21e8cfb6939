#include "plan/simulation.h"

#include <algorithm>
#include <cmath>

#include "base/memory.h"
#include "base/random.h"
#include "plan/synthetic_model.h"
#include "thinwire/session.h"
#include "transport/backends.h"

namespace thinwire::plan {
namespace {

// Returns a step far into a run, where every warm-up is over. It is half way between two steps at
// which a strategy adapts to what it measured, which happens every tenth of the run.
std::uint64_t first_step(const SimulationSpec& spec) {
  constexpr std::uint64_t kFar = 1'000'000;
  return spec.steps == 0 ? kFar : (kFar / spec.steps + 1) * spec.steps + spec.steps / 20;
}

// Strategies that exchange models know the length of their run only for a warm-up, which would be
// longer than what is simulated. A run of one step has none.
std::uint64_t known_steps(const SimulationSpec& spec, SyncMode sync_mode) {
  return sync_mode == SyncMode::synchronous ? spec.steps : 1;
}

constexpr float kLearningRate = 0.01f;
// The four numbers by which asynchronous workers notify each other of their progress.
constexpr double kProgressBytes = 32;

// Gradients as in the middle of training: the sum of a direction that all share and of noise. The
// part that workers share in one step decides which coordinates they pick together. The part that
// the steps of one worker share decides how far they lead: thirteen steps to five times the length
// of one.
struct Correlation {
  float shared, special;
};
constexpr Correlation kOfWorkers{0.6f, 0.8f}, kOfSteps{0.3f, 0.954f};

class TrainingGradients {
 public:
  TrainingGradients(std::size_t numel, Correlation correlation)
      : numel_(numel), correlation_(correlation), pool_(2 * numel) {
    fill_gradient(std::span(pool_).first(numel), 1, 0, 0);
    std::copy_n(pool_.begin(), numel, pool_.begin() + static_cast<std::ptrdiff_t>(numel));
  }

  void fill(MutFloats out, int rank, std::uint64_t step) const {
    const auto draw = base::philox(1, step, static_cast<std::uint64_t>(rank), base::Purpose::bench);
    const float* const shared = pool_.data() + numel_ / 2;
    const float* const special = pool_.data() + draw[0] % numel_;
    for (std::size_t i = 0; i < numel_; ++i) {
      out[i] = correlation_.shared * shared[i] + correlation_.special * special[i];
    }
  }

  Floats parameters() const { return Floats(pool_).first(numel_); }

 private:
  std::size_t numel_;
  Correlation correlation_;
  std::vector<float> pool_;  // twice the same, so that a window may begin anywhere
};

// How far a worker is.
struct Mark {
  Seconds time{0};
  double sent = 0, received = 0;  // bytes
  double exchanged = 0;           // grows whenever this rank sends its model or gradient
  double fixed = 0;               // bytes of messages that do not depend on the size of the model
  double quantized = 0;           // blocks of quantized messages received
  Seconds codec{0}, served{0};
};
using Marks = std::span<const Mark>;

class SimulatedWorker {
 public:
  SimulatedWorker(Transport& wire, const SimulationSpec& spec, const TrainingGradients& gradients,
                  const LogSink& log)
      : wire_(wire),
        plan_(spec),
        gradients_(gradients),
        log_(log),
        session_(wire, session_options()),
        grads_(spec.layout.numel) {
    // Synchronous strategies exchange gradients alone.
    if (session_.sync_mode() == SyncMode::synchronous) return;
    params_.assign(gradients.parameters().begin(), gradients.parameters().end());
  }

  // Returns a mark before the first step and one after each. Warnings are taken of the begin only:
  // those of later steps would be about synthetic gradients.
  std::vector<Mark> perform() {
    session_.begin(view(), first_step(plan_));
    begun_ = true;
    std::vector<Mark> marks = {mark()};
    for (int step = 0; step < plan_.warmup + plan_.counted; ++step) {
      take_step();
      marks.push_back(mark());
    }
    session_.end(view());
    return marks;
  }

  std::vector<Metric> metrics() { return session_.metrics(); }
  // The costs of this rank at the end. `blocks` is the same on every rank.
  CostProfile cost_profile() const { return session_.cost_profile(); }

 private:
  SessionOptions session_options() {
    SessionOptions options;
    options.strategy = plan_.strategy;
    options.run.steps = known_steps(plan_, sync_mode_of(*make_strategy(plan_.strategy)));
    options.run.codec_time = CodecTime::measured;
    options.log = [this](LogLevel level, std::string_view text) {
      if (!begun_) log_(level, text);
    };
    return options;
  }

  ModelView view() { return {params_, grads_, plan_.layout}; }

  void take_step() {
    if (session_.serves()) {
      std::ranges::fill(grads_, 0.0f);
    } else {
      gradients_.fill(grads_, wire_.rank(), session_.step());
      wire_.sleep(plan_.computing);
    }
    session_.exchange(view());
    for (std::size_t i = 0; i < params_.size(); ++i) params_[i] -= kLearningRate * grads_[i];
    session_.finish_step(view(), {1, kLearningRate});
  }

  // Asynchronous workers notify each other of their progress in every step. These messages are no
  // exchanges of models, which the strategy itself counts.
  Mark mark() const {
    const Traffic& traffic = wire_.traffic();
    Mark out{wire_.now(), static_cast<double>(traffic.bytes_sent),
             static_cast<double>(traffic.bytes_received)};
    const CostProfile cost = session_.cost_profile();
    const bool counts = session_.sync_mode() == SyncMode::asynchronous;
    out.exchanged = counts ? cost.exchanges : out.sent;
    if (cost.by_message) {
      out.fixed = kProgressBytes * (static_cast<double>(traffic.messages_sent) - out.exchanged);
    }
    out.quantized = cost.quantized_messages;
    out.codec = session_.stats().codec;
    out.served = Seconds(cost.server_seconds);
    return out;
  }

  Transport& wire_;
  const SimulationSpec& plan_;
  const TrainingGradients& gradients_;
  const LogSink& log_;
  bool begun_ = false;
  Session session_;
  std::vector<float> grads_, params_;
};

struct ExchangeCount {
  int times = 0;
  std::size_t first = 0, last = 0;  // the marks after the first and the last exchange
};
ExchangeCount count_exchanges(Marks marks) {
  ExchangeCount out;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    if (marks[i].exchanged <= marks[i - 1].exchanged) continue;
    if (out.times++ == 0) out.first = i;
    out.last = i;
  }
  return out;
}

// Adds up what the workers did. If a worker exchanges only now and then, the steps between its
// first and its last exchange count, which are whole intervals.
class Tally {
 public:
  void add(Marks marks) {
    const ExchangeCount count = count_exchanges(marks);
    exchanges_ = exchanges_ < 0 ? count.times : std::min(exchanges_, count.times);
    const bool rare = count.times > 1 && static_cast<std::size_t>(count.times) + 1 < marks.size();
    if (rare) marks = marks.subspan(count.first, count.last - count.first + 1);
    const auto steps = static_cast<double>(marks.size() - 1);
    const double sent = marks.back().sent - marks.front().sent;
    const double received = marks.back().received - marks.front().received;
    steps_ += steps;
    time_ += marks.back().time - marks.front().time;
    sent_ += sent;
    fixed_ += marks.back().fixed - marks.front().fixed;
    busiest_ = std::max({busiest_, sent / steps, received / steps});
  }

  void report(SimulationResult& out) const {
    out.step = time_ / steps_;
    out.bytes_sent = sent_ / steps_;
    out.fixed_bytes = fixed_ / steps_;
    out.busiest_bytes = busiest_;
    out.exchanges = exchanges_;
  }

 private:
  int exchanges_ = -1;
  double steps_ = 0, sent_ = 0, fixed_ = 0, busiest_ = 0;
  Seconds time_{0};
};

// Returns how much of a measured time a step took. The steps of a synchronous strategy are alike,
// so the shortest is the one that the machine disturbed least; with others, a few steps may do the
// work of many.
double per_step(Marks marks, Seconds Mark::*field, SyncMode sync_mode) {
  const auto steps = static_cast<double>(marks.size() - 1);
  if (sync_mode != SyncMode::synchronous)
    return (marks.back().*field - marks.front().*field).count() / steps;
  Seconds shortest = marks[1].*field - marks[0].*field;
  for (std::size_t i = 2; i < marks.size(); ++i) {
    shortest = std::min(shortest, marks[i].*field - marks[i - 1].*field);
  }
  return shortest.count();
}

void evaluate(const std::vector<std::vector<Mark>>& marks, const SimulationSpec& spec,
              SimulationResult& out) {
  const auto strategy = make_strategy(spec.strategy);
  const auto first_worker = static_cast<std::size_t>(serving_ranks_of(*strategy, spec.workers));
  Tally tally;
  std::vector<double> codec;
  double served = 0;
  double last = 0, before = 0;  // what all sent in the last steps
  out.coded = true;
  for (std::size_t rank = 0; rank < marks.size(); ++rank) {
    const Marks counted = Marks(marks[rank]).subspan(static_cast<std::size_t>(spec.warmup));
    tally.add(counted);
    const Marks all(marks[rank]);
    last += all[all.size() - 1].sent - all[all.size() - 2].sent;
    if (all.size() > 2) before += all[all.size() - 2].sent - all[all.size() - 3].sent;
    out.coded = out.coded && counted.front().quantized > 0;
    if (rank >= first_worker)
      codec.push_back(per_step(counted, &Mark::codec, sync_mode_of(*strategy)));
    served = std::max(served, per_step(counted, &Mark::served, sync_mode_of(*strategy)));
  }
  tally.report(out);
  if (before > 0) out.change = std::abs(last / before - 1);
  out.codec = Seconds(summarize(std::move(codec)).median + served);
}

}  // namespace

const Metric* find_metric(const std::vector<Metric>& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &Metric::name);
  return found == metrics.end() ? nullptr : &*found;
}

SimulationResult simulate_strategy(const SimulationSpec& spec) {
  const bool synchronous = sync_mode_of(*make_strategy(spec.strategy)) == SyncMode::synchronous;
  const TrainingGradients gradients(spec.layout.numel, synchronous ? kOfWorkers : kOfSteps);
  std::vector<std::vector<Mark>> marks(static_cast<std::size_t>(spec.workers));
  SimulationResult out;
  const LogSink log = [&out](LogLevel level, std::string_view text) {
    if (level >= LogLevel::warning) out.warnings.emplace_back(text);
  };
  transport::BackendOptions options;
  options.size = spec.workers;
  options.network = spec.network;
  options.payload_scale = spec.scale;
  options.timeout =
      Transport::kLongestTimeout;  // no rank counts as late, however slow the network is
  run_workers("sim", options, [&](Transport& wire) {
    SimulatedWorker worker(wire, spec, gradients, log);
    marks[static_cast<std::size_t>(wire.rank())] = worker.perform();
    std::vector<Metric> metrics = worker.metrics();
    if (wire.rank() != 0) return;
    out.metrics = std::move(metrics);
    out.cost = worker.cost_profile();
  });
  base::give_memory_back();
  evaluate(marks, spec, out);
  return out;
}

}  // namespace thinwire::plan
