#include "cli/rehearsal.h"

#include <algorithm>

#include "cli/memory.h"
#include "cli/synthetic.h"
#include "thinwire/engines.h"
#include "thinwire/random.h"

namespace thinwire::cli {
namespace {

// Far into a run, where every warm-up is over.
constexpr std::uint64_t kFirstStep = 1'000'000;
constexpr float kLearningRate = 0.01f;
// Rows and columns of all layers together are then as many as those of ResNet-50.
constexpr std::size_t kLayerSide = 512;

// Gradients as in the midst of training: a direction that all of them share, and what is special to
// each. What workers share in one step decides which coordinates they pick together; what the steps
// of one worker share, how far they lead: thirteen in a row to five times the length of one.
struct Likeness {
  float shared, special;
};
constexpr Likeness kOfWorkers{0.6f, 0.8f}, kOfSteps{0.3f, 0.954f};

class TrainingGradients {
 public:
  TrainingGradients(std::size_t numel, Likeness likeness)
      : numel_(numel), likeness_(likeness), pool_(2 * numel) {
    fill_gradient(std::span(pool_).first(numel), 1, 0, 0);
    std::copy_n(pool_.begin(), numel, pool_.begin() + static_cast<std::ptrdiff_t>(numel));
  }

  void fill(MutFloats out, int rank, std::uint64_t step) const {
    const auto draw = philox(1, step, static_cast<std::uint64_t>(rank), Purpose::bench);
    const float* const shared = pool_.data() + numel_ / 2;
    const float* const special = pool_.data() + draw[0] % numel_;
    for (std::size_t i = 0; i < numel_; ++i) {
      out[i] = likeness_.shared * shared[i] + likeness_.special * special[i];
    }
  }

  Floats parameters() const { return Floats(pool_).first(numel_); }

 private:
  std::size_t numel_;
  Likeness likeness_;
  std::vector<float> pool_;  // twice the same, so that a window may begin anywhere
};

// How far a worker is.
struct Mark {
  Seconds time{0};
  double sent = 0, received = 0;
  Seconds codec{0};
};

class Performance {
 public:
  Performance(Transport& wire, const Rehearsal& plan, const TrainingGradients& gradients)
      : plan_(plan),
        gradients_(gradients),
        strategy_(make_strategy(plan.strategy)),
        serves_(wire.rank() < strategy_->first_worker(wire.size())),
        layout_(layered(plan.numel, kLayerSide)),
        grads_(plan.numel),
        context_{kFirstStep, {{}, grads_, layout_}, wire, stats_} {
    if (strategy_->pace() == Pace::lockstep) return;  // it exchanges gradients alone
    params_.assign(gradients.parameters().begin(), gradients.parameters().end());
    context_.model.params = params_;
    context_.samples = 1;
    context_.learning_rate = kLearningRate;
  }

  // A mark before the first step and one after each.
  std::vector<Mark> perform() {
    strategy_->begin(context_);
    std::vector<Mark> marks = {mark()};
    const int charged_end = plan_.warmup + plan_.charged;
    for (int step = 0; step < charged_end + plan_.counted; ++step) {
      context_.run.charge_codec = step >= plan_.warmup && step < charged_end;
      take_step();
      marks.push_back(mark());
    }
    strategy_->end(context_);
    return marks;
  }

  std::vector<Figure> figures() {
    std::vector<Figure> out = strategy_->figures();
    sum_figures(context_.wire, out);
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

  Mark mark() const {
    const Traffic& traffic = context_.wire.traffic();
    return {context_.wire.now(), static_cast<double>(traffic.bytes_sent),
            static_cast<double>(traffic.bytes_received), stats_.codec};
  }

  const Rehearsal& plan_;
  const TrainingGradients& gradients_;
  std::unique_ptr<Strategy> strategy_;
  bool serves_;  // and trains on nothing
  Layout layout_;
  std::vector<float> grads_, params_;
  Stats stats_;
  StepContext context_;
};

struct Telling {
  int times = 0;
  std::size_t first = 0, last = 0;  // marks after which something had been told
};
Telling telling(std::span<const Mark> marks) {
  Telling out;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    if (marks[i].sent <= marks[i - 1].sent) continue;
    if (out.times++ == 0) out.first = i;
    out.last = i;
  }
  return out;
}

// Adds one worker to the means. Of one that tells something only now and then, what lies between
// the first and the last time counts: whole intervals.
void add_counted(std::span<const Mark> marks, int workers, Rehearsed& out) {
  const Telling told = telling(marks);
  out.exchanges = out.exchanges < 0 ? told.times : std::min(out.exchanges, told.times);
  const bool now_and_then =
      told.times > 1 && static_cast<std::size_t>(told.times) + 1 < marks.size();
  if (now_and_then) marks = marks.subspan(told.first, told.last - told.first + 1);
  const auto steps = static_cast<double>(marks.size() - 1);
  const double sent = (marks.back().sent - marks.front().sent) / steps;
  const double received = (marks.back().received - marks.front().received) / steps;
  out.step += (marks.back().time - marks.front().time) / steps / workers;
  out.bytes_sent += sent / workers;
  out.busiest_bytes = std::max({out.busiest_bytes, sent, received});
}

// Of each worker what a charged step took. In lockstep all steps are alike, and the shortest is the
// one that the machine disturbed least; else a few steps may do the work of many.
double codec_of(std::span<const Mark> marks, Pace pace) {
  const auto steps = static_cast<double>(marks.size() - 1);
  if (pace != Pace::lockstep) return (marks.back().codec - marks.front().codec).count() / steps;
  Seconds shortest = marks[1].codec - marks[0].codec;
  for (std::size_t i = 2; i < marks.size(); ++i) {
    shortest = std::min(shortest, marks[i].codec - marks[i - 1].codec);
  }
  return shortest.count();
}

}  // namespace

Rehearsed rehearse(const Rehearsal& plan) {
  const auto strategy = make_strategy(plan.strategy);
  const bool lockstep = strategy->pace() == Pace::lockstep;
  const TrainingGradients gradients(plan.numel, lockstep ? kOfWorkers : kOfSteps);
  std::vector<std::vector<Mark>> marks(static_cast<std::size_t>(plan.workers));
  Rehearsed out;
  JoinOptions options;
  options.size = plan.workers;
  options.network = plan.network;
  options.byte_weight = plan.scale;
  options.timeout = Transport::kLongestTimeout;  // nobody is late, however slow the network is
  run_workers("sim", options, [&](Transport& wire) {
    Performance performance(wire, plan, gradients);
    marks[static_cast<std::size_t>(wire.rank())] = performance.perform();
    std::vector<Figure> figures = performance.figures();
    if (wire.rank() == 0) out.figures = std::move(figures);
  });

  give_memory_back();

  const auto first_worker = static_cast<std::size_t>(strategy->first_worker(plan.workers));
  const auto warm = static_cast<std::size_t>(plan.warmup);
  const auto charged = static_cast<std::size_t>(plan.charged);
  std::vector<double> codec;
  out.exchanges = -1;
  for (std::size_t rank = 0; rank < marks.size(); ++rank) {
    const std::span<const Mark> all(marks[rank]);
    if (charged > 0 && rank >= first_worker) {
      codec.push_back(codec_of(all.subspan(warm, charged + 1), strategy->pace()));
    }
    if (plan.counted > 0) add_counted(all.subspan(warm + charged), plan.workers, out);
  }
  if (charged > 0) out.codec = Seconds(summarize(std::move(codec)).median);
  return out;
}

}  // namespace thinwire::cli
