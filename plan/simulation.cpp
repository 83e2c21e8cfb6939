#include "plan/simulation.h"

#include <algorithm>
#include <cmath>

#include "base/memory.h"
#include "base/random.h"
#include "plan/synthetic_model.h"
#include "transport/backends.h"

namespace thinwire::plan {
namespace {

// Far into a run, where every warm-up is over.
constexpr std::uint64_t kFirstStep = 1'000'000;
constexpr float kLearningRate = 0.01f;
// Four numbers with which workers asynchronously tell each other how far they are.
constexpr double kNewsBytes = 32;

// Gradients as in the midst of training: a direction that all of them share, and what is special to
// each. What workers share in one step decides which coordinates they pick together; what the steps
// of one worker share, how far they lead: thirteen in a row to five times the length of one.
struct Correlation {
  float shared, special;
};
constexpr Correlation kOfWorkers{0.6f, 0.8f}, kOfSteps{0.3f, 0.954f};

class TrainingGradients {
 public:
  TrainingGradients(std::size_t numel, Correlation likeness)
      : numel_(numel), likeness_(likeness), pool_(2 * numel) {
    fill_gradient(std::span(pool_).first(numel), 1, 0, 0);
    std::copy_n(pool_.begin(), numel, pool_.begin() + static_cast<std::ptrdiff_t>(numel));
  }

  void fill(MutFloats out, int rank, std::uint64_t step) const {
    const auto draw = base::philox(1, step, static_cast<std::uint64_t>(rank), base::Purpose::bench);
    const float* const shared = pool_.data() + numel_ / 2;
    const float* const special = pool_.data() + draw[0] % numel_;
    for (std::size_t i = 0; i < numel_; ++i) {
      out[i] = likeness_.shared * shared[i] + likeness_.special * special[i];
    }
  }

  Floats parameters() const { return Floats(pool_).first(numel_); }

 private:
  std::size_t numel_;
  Correlation likeness_;
  std::vector<float> pool_;  // twice the same, so that a window may begin anywhere
};

// How far a worker is.
struct Mark {
  Seconds time{0};
  double sent = 0, received = 0;  // bytes
  double told = 0;                // what grows whenever the model, or what became of it, is told
  double news = 0;                // bytes of messages that are not about the model
  double coded = 0;               // blocks of letters in few bits that came
  Seconds codec{0}, served{0};
};
using Marks = std::span<const Mark>;

class SimulatedWorker {
 public:
  SimulatedWorker(Transport& wire, const SimulationSpec& plan, const TrainingGradients& gradients)
      : plan_(plan),
        gradients_(gradients),
        strategy_(make_strategy(plan.strategy)),
        serves_(wire.rank() < strategy_->first_worker(wire.size())),
        grads_(plan.layout.numel),
        context_{kFirstStep, {{}, grads_, plan.layout}, wire, stats_} {
    context_.run.measure_codec = true;
    if (strategy_->sync_mode() == SyncMode::synchronous) return;  // it exchanges gradients alone
    params_.assign(gradients.parameters().begin(), gradients.parameters().end());
    context_.model.params = params_;
    context_.samples = 1;
    context_.learning_rate = kLearningRate;
  }

  // A mark before the first step and one after each. What the strategy says about the gradients of
  // later steps would be about made-up ones.
  std::vector<Mark> perform(const LogSink& log) {
    context_.log = &log;
    strategy_->begin(context_);
    context_.log = nullptr;
    std::vector<Mark> marks = {mark()};
    for (int step = 0; step < plan_.warmup + plan_.counted; ++step) {
      take_step();
      marks.push_back(mark());
    }
    strategy_->end(context_);
    return marks;
  }

  std::vector<Metric> metrics() {
    std::vector<Metric> out = strategy_->metrics();
    sum_metrics(context_.wire, out);
    return out;
  }

 private:
  void take_step() {
    if (serves_) {
      std::ranges::fill(grads_, 0.0f);
    } else {
      gradients_.fill(grads_, context_.wire.rank(), context_.step);
      context_.wire.sleep(plan_.computing);
    }
    context_.skip = false;
    strategy_->after_backward(context_);
    for (std::size_t i = 0; i < params_.size(); ++i) params_[i] -= kLearningRate * grads_[i];
    strategy_->after_step(context_);
    ++context_.step;
  }

  // Workers asynchronously tell each other how far they are in every step, which is not their
  // models: of these they have metrics.
  Mark mark() const {
    const Traffic& traffic = context_.wire.traffic();
    Mark out{context_.wire.now(), static_cast<double>(traffic.bytes_sent),
             static_cast<double>(traffic.bytes_received)};
    out.told = out.sent;
    out.codec = stats_.codec;
    const std::vector<Metric> metrics = strategy_->metrics();
    if (const Metric* found = find_metric(metrics, "rounds")) out.told = found->amount;
    if (const Metric* found = find_metric(metrics, "messages_per_worker_step")) {
      out.told = found->amount;
      out.news = kNewsBytes * (static_cast<double>(traffic.messages_sent) - out.told);
    }
    if (const Metric* found = find_metric(metrics, "blocks_out_of_range")) out.coded = found->of;
    if (const Metric* found = find_metric(metrics, "server_seconds")) {
      out.served = Seconds(found->amount);
    }
    return out;
  }

  const SimulationSpec& plan_;
  const TrainingGradients& gradients_;
  std::unique_ptr<Strategy> strategy_;
  bool serves_;  // and trains on nothing
  std::vector<float> grads_, params_;
  Stats stats_;
  StepContext context_;
};

struct ExchangeCount {
  int times = 0;
  std::size_t first = 0, last = 0;  // marks after which something had been told
};
ExchangeCount telling(Marks marks) {
  ExchangeCount out;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    if (marks[i].told <= marks[i - 1].told) continue;
    if (out.times++ == 0) out.first = i;
    out.last = i;
  }
  return out;
}

// Of workers that tell something only now and then, what lies between the first and the last time
// counts: whole intervals.
class Tally {
 public:
  void add(Marks marks) {
    const ExchangeCount told = telling(marks);
    exchanges_ = exchanges_ < 0 ? told.times : std::min(exchanges_, told.times);
    const bool now_and_then =
        told.times > 1 && static_cast<std::size_t>(told.times) + 1 < marks.size();
    if (now_and_then) marks = marks.subspan(told.first, told.last - told.first + 1);
    const auto steps = static_cast<double>(marks.size() - 1);
    const double sent = marks.back().sent - marks.front().sent;
    const double received = marks.back().received - marks.front().received;
    steps_ += steps;
    time_ += marks.back().time - marks.front().time;
    sent_ += sent;
    news_ += marks.back().news - marks.front().news;
    busiest_ = std::max({busiest_, sent / steps, received / steps});
  }

  void report(SimulationResult& out) const {
    out.step = time_ / steps_;
    out.bytes_sent = sent_ / steps_;
    out.fixed_bytes = news_ / steps_;
    out.busiest_bytes = busiest_;
    out.exchanges = exchanges_;
  }

 private:
  int exchanges_ = -1;
  double steps_ = 0, sent_ = 0, news_ = 0, busiest_ = 0;
  Seconds time_{0};
};

// What a step took of a time that is measured. In synchronous all steps are alike, and the shortest
// is the one that the machine disturbed least; else a few steps may do the work of many.
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

void evaluate(const std::vector<std::vector<Mark>>& marks, const SimulationSpec& plan,
              SimulationResult& out) {
  const auto strategy = make_strategy(plan.strategy);
  const auto first_worker = static_cast<std::size_t>(strategy->first_worker(plan.workers));
  Tally tally;
  std::vector<double> codec;
  double served = 0;
  double last = 0, before = 0;  // what all sent in the last steps
  out.coded = true;
  for (std::size_t rank = 0; rank < marks.size(); ++rank) {
    const Marks counted = Marks(marks[rank]).subspan(static_cast<std::size_t>(plan.warmup));
    tally.add(counted);
    const Marks all(marks[rank]);
    last += all[all.size() - 1].sent - all[all.size() - 2].sent;
    if (all.size() > 2) before += all[all.size() - 2].sent - all[all.size() - 3].sent;
    out.coded = out.coded && counted.front().coded > 0;
    if (rank >= first_worker)
      codec.push_back(per_step(counted, &Mark::codec, strategy->sync_mode()));
    served = std::max(served, per_step(counted, &Mark::served, strategy->sync_mode()));
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

SimulationResult simulate_strategy(const SimulationSpec& plan) {
  const bool synchronous = make_strategy(plan.strategy)->sync_mode() == SyncMode::synchronous;
  const TrainingGradients gradients(plan.layout.numel, synchronous ? kOfWorkers : kOfSteps);
  std::vector<std::vector<Mark>> marks(static_cast<std::size_t>(plan.workers));
  SimulationResult out;
  const LogSink log = [&out](LogLevel, std::string_view text) { out.warnings.emplace_back(text); };
  transport::BackendOptions options;
  options.size = plan.workers;
  options.network = plan.network;
  options.payload_scale = plan.scale;
  options.timeout = Transport::kLongestTimeout;  // nobody is late, however slow the network is
  run_workers("sim", options, [&](Transport& wire) {
    SimulatedWorker performance(wire, plan, gradients);
    marks[static_cast<std::size_t>(wire.rank())] = performance.perform(log);
    std::vector<Metric> metrics = performance.metrics();
    if (wire.rank() == 0) out.metrics = std::move(metrics);
  });
  base::give_memory_back();
  evaluate(marks, plan, out);
  return out;
}

}  // namespace thinwire::plan
