#include "trainer/train.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "thinwire/collective.h"
#include "trainer/checkpoint.h"
#include "trainer/compute_threads.h"
#include "trainer/data/loader.h"
#include "trainer/evaluate.h"
#include "trainer/flat_model.h"
#include "trainer/models/network.h"
#include "trainer/schedule.h"
#include "trainer/sgd.h"
#include "trainer/stragglers.h"

namespace thinwire::trainer {
namespace {

// What a rank carries through a run besides the model; part of its checkpoints.
struct Counters {
  double time = 0;  // seconds of training before this process, of resumed runs
  double compute = 0, codec = 0, wire = 0;
  std::uint64_t bytes_sent = 0, samples = 0, skipped = 0;
};

// Losses since the workers last met, weighted by examples.
struct LossSum {
  double loss = 0;
  double examples = 0;
};

// Simulated workers are many, share one thread, and their computing is timed: threads that read
// ahead would disturb it.
std::size_t batches_ahead(const Transport& wire) {
  const bool simulated = &wire.runtime() != &system_runtime();
  return simulated ? 0 : LoaderOptions().ahead;
}

std::vector<Section> pack(std::initializer_list<std::pair<std::string, Bytes>> parts) {
  std::vector<Section> sections;
  for (const auto& [name, bytes] : parts) {
    sections.push_back({name, Payload(bytes.begin(), bytes.end())});
  }
  return sections;
}

// Fills `into`, which has the only right size.
void unpack(const std::vector<Section>& sections, std::string_view name, MutBytes into) {
  const Payload& bytes = section(sections, name);
  if (bytes.size() != into.size()) {
    throw WireError(fmt::format("the checkpoint's part '{}' has {} bytes, {} are needed", name,
                                bytes.size(), into.size()));
  }
  std::ranges::copy(bytes, into.begin());
}

CheckpointStore checkpoints(const TrainOptions& options, std::size_t parameters, int rank,
                            int workers) {
  return {std::filesystem::path(options.out) / "checkpoints",
          {options.model, options.data, options.session.strategy,
           static_cast<std::uint32_t>(workers), parameters, options.seed, options.batch},
          rank};
}

template <class T>
MutBytes raw(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

SessionOptions session_options(const TrainOptions& options, const DataPair& data, int workers) {
  SessionOptions session = options.session;
  const RunLength epoch{.epochs = 1};
  session.run.steps = options.steps;
  session.run.steps_per_epoch =
      static_cast<double>(total_steps(epoch, data.train->size(), options.batch, workers));
  session.run.descent = options.descent;
  session.run.seed = options.seed;
  session.run.charge_codec = options.step_time == Seconds(0);
  return session;
}

class Run {
 public:
  Run(Transport& wire, const TrainOptions& options, const DataPair& data, const Observer& observer)
      : wire_(wire),
        options_(options),
        data_(data),
        observer_(observer),
        network_(make_network(options.model, data.train->shape(), options.seed)),
        model_(*network_),
        schedule_(Schedule::parse(options.lr_schedule, options.learning_rate, wire.size())),
        session_(wire, session_options(options, data, wire.size())),
        sgd_(session_.remaining_descent(), model_.layout().numel),
        store_(checkpoints(options, model_.layout().numel, wire.rank(), wire.size())) {}

  TrainResult run() {
    const std::uint64_t first = options_.resume ? resume() : start_anew();
    session_.begin(model_.view(), first);
    LoaderOptions reading{wire_.rank(), wire_.size(), options_.batch, options_.seed, first};
    reading.ahead = batches_ahead(wire_);
    Loader loader(*data_.train, reading);
    last_meeting_ = first;
    steps_per_epoch_ = static_cast<double>(loader.steps_per_epoch());
    last_.step = first;
    last_.epoch = static_cast<double>(first) / steps_per_epoch_;
    start_ = wire_.now();
    bytes_before_ = wire_.traffic().bytes_sent;
    while (session_.step() < options_.steps) {
      step(loader.next());
      const std::uint64_t done = session_.step();
      const bool last = done == options_.steps;
      const bool test = due(options_.eval_every, done) && !last;
      const bool keep = !options_.out.empty() && (last || due(options_.save_every, done));
      if (test || keep || last) meet();
      if (test) evaluate();
      if (keep) save();
    }
    return finish();
  }

 private:
  static bool due(std::uint64_t every, std::uint64_t step) {
    return every > 0 && step % every == 0;
  }

  void step(const Batch& batch) {
    const Counters before = counters_now();
    StepReport report;
    report.loss = compute(batch);
    const double epoch = static_cast<double>(session_.step()) / steps_per_epoch_;
    report.learning_rate =
        schedule_.rate(epoch, static_cast<double>(options_.steps) / steps_per_epoch_);
    if (session_.after_backward(model_.view())) {
      sgd_.step(model_.params(), model_.grads(), static_cast<float>(report.learning_rate));
    }
    session_.after_step(model_.view());
    counters_.samples += batch.global_examples;
    losses_.loss += report.loss * static_cast<double>(batch.examples);
    losses_.examples += static_cast<double>(batch.examples);
    if (wire_.rank() == 0) tell(report, before);
  }

  // Gradients of this worker's batch, weighted so that their mean over the workers is the gradient
  // of the global batch. Returns the loss. Takes as long as the options say.
  double compute(const Batch& batch) {
    const Seconds start = wire_.now();
    const auto real_start = std::chrono::steady_clock::now();
    model_.zero_grads();
    double loss = 0;
    if (batch.examples > 0) {
      network_->train();
      network_->random = {options_.seed, session_.step(), static_cast<std::uint64_t>(wire_.rank())};
      const torch::Tensor mean = loss_of(*network_, to_tensors(batch, data_.train->shape()));
      loss = mean.item<double>();
      const double weight = static_cast<double>(batch.examples) * wire_.size() /
                            static_cast<double>(batch.global_examples);
      (weight == 1 ? mean : mean * weight).backward();
    }
    // In simulated time computing is free until it is charged; a straggler pays more.
    const Seconds measured = std::chrono::steady_clock::now() - real_start;
    const Seconds wanted =
        slowness() * (options_.step_time > Seconds(0) ? options_.step_time : measured);
    const Seconds missing = wanted - (wire_.now() - start);
    if (missing > Seconds(0)) wire_.sleep(missing);
    counters_.compute += (wire_.now() - start).count();
    return loss;
  }

  double slowness() const {
    for (const Straggler& straggler : options_.slow) {
      if (straggler.rank == wire_.rank()) return straggler.factor;
    }
    return 1;
  }

  Counters counters_now() const {
    Counters now = counters_;
    now.time += (wire_.now() - start_).count();
    now.codec += session_.stats().codec.count();
    now.wire += session_.stats().wire.count();
    now.bytes_sent += wire_.traffic().bytes_sent - bytes_before_;
    now.skipped += session_.stats().skipped_steps;
    return now;
  }

  void tell(StepReport& report, const Counters& before) {
    const Counters now = counters_now();
    report.step = session_.step();
    report.steps = options_.steps;
    report.epoch = static_cast<double>(report.step) / steps_per_epoch_;
    report.time = Seconds(now.time);
    report.compute = Seconds(now.compute - before.compute);
    report.codec = Seconds(now.codec - before.codec);
    report.wire = Seconds(now.wire - before.wire);
    report.bytes_sent = now.bytes_sent - before.bytes_sent;
    report.residual_ratio = session_.stats().residual_ratio;
    report.samples_per_second = static_cast<double>(now.samples) / std::max(now.time, 1e-9);
    last_ = report;
    observer_.step(report);
  }

  void meet() {
    const LossSum mine = std::exchange(losses_, {});
    std::vector<LossSum> all(static_cast<std::size_t>(wire_.size()));
    allgather(wire_, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    LossSum total;
    for (const LossSum& each : all) {
      total.loss += each.loss;
      total.examples += each.examples;
    }
    const std::uint64_t first = std::exchange(last_meeting_, session_.step()) + 1;
    if (wire_.rank() == 0) {
      observer_.met({first, last_meeting_, total.loss / std::max(total.examples, 1.0)});
    }
  }

  Evaluation evaluate() {
    average_statistics();
    const Evaluation result = trainer::evaluate(wire_, *network_, *data_.test);
    if (wire_.rank() == 0) observer_.evaluated(last_, result);
    return result;
  }

  // Running means and variances differ between the workers; what counts is their mean.
  void average_statistics() {
    const MutFloats statistics = model_.statistics();
    if (statistics.empty() || wire_.size() == 1) return;
    allreduce_sum(wire_, statistics);
    for (float& value : statistics) value /= static_cast<float>(wire_.size());
  }

  void save() {
    Counters counters = counters_now();
    Payload strategy;
    session_.save(strategy);
    const auto own = pack({{"statistics", std::as_bytes(model_.statistics())},
                           {"counters", raw(counters)},
                           {"strategy", strategy}});
    const auto model = pack(
        {{"params", std::as_bytes(model_.params())}, {"velocity", std::as_bytes(sgd_.velocity())}});
    store_.save(wire_, session_.step(), own, model, options_.keep);
  }

  std::uint64_t start_anew() {
    if (!options_.out.empty() && store_.set_aside_earlier() && wire_.rank() == 0) {
      observer_.note(
          fmt::format("{}/checkpoints held an earlier run, now in earlier-rank-* there (--resume "
                      "goes on with it)",
                      options_.out));
    }
    return 0;
  }

  std::uint64_t resume() {
    const CheckpointStore::Loaded loaded = store_.load(wire_);
    unpack(loaded.own, "statistics", std::as_writable_bytes(model_.statistics()));
    unpack(loaded.own, "counters", raw(counters_));
    if (wire_.rank() == 0) {
      unpack(loaded.model, "params", std::as_writable_bytes(model_.params()));
      unpack(loaded.model, "velocity", std::as_writable_bytes(sgd_.velocity()));
    }
    broadcast(wire_, std::as_writable_bytes(sgd_.velocity()));
    session_.load(section(loaded.own, "strategy"));
    for (const std::string& note : loaded.notes) {
      const std::string text = fmt::format("rank {}: checkpoint of {}", wire_.rank(), note);
      if (wire_.rank() == 0) {
        observer_.note(text);
      } else if (options_.session.log) {
        options_.session.log(LogLevel::warning, text);
      }
    }
    if (wire_.rank() == 0) {
      observer_.note(loaded.step < options_.steps
                         ? fmt::format("resuming after step {}", loaded.step)
                         : fmt::format("the checkpoint is of step {}, the run has {}: nothing is "
                                       "left to train; ask for more steps or epochs to go on",
                                       loaded.step, options_.steps));
    }
    return loaded.step;
  }

  TrainResult finish() {
    TrainResult result;
    result.replicas_identical = session_.replicas_identical(model_.view());
    session_.end(model_.view());
    const Counters mine = counters_now();
    result.test = evaluate();
    result.accuracy_worst_worker = result.test.accuracy;

    std::vector<Counters> all(static_cast<std::size_t>(wire_.size()));
    allgather(wire_, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    const auto workers = static_cast<double>(wire_.size());
    double fastest_wire = mine.wire;
    std::vector<WorkerTimes> times;
    for (const Counters& each : all) {
      times.push_back({Seconds(each.compute), Seconds(each.wire)});
      result.total = std::max(result.total, Seconds(each.time));
      result.compute += Seconds(each.compute / workers);
      result.codec += Seconds(each.codec / workers);
      result.wait += Seconds(each.wire / workers);
      result.bytes_sent += each.bytes_sent;
      fastest_wire = std::min(fastest_wire, each.wire);
    }
    // The worker that comes last to each exchange only transfers; what the others spend beyond that
    // is waiting for it.
    result.wire = Seconds(fastest_wire);
    result.wait -= result.wire;
    result.stragglers = late_workers(times, result.total);
    for (LateWorker& late : result.stragglers) late.host = wire_.host(late.rank);
    result.steps = session_.step();
    result.samples = mine.samples;
    result.skipped_steps = mine.skipped;
    result.residual_ratio = session_.stats().residual_ratio;
    result.figures = session_.figures();
    result.parameters = model_.layout().numel;
    result.bytes_per_worker_step = static_cast<double>(result.bytes_sent) / workers /
                                   std::max(1.0, static_cast<double>(result.steps));
    result.dense_bytes_per_worker_step =
        static_cast<double>(allreduce_bytes(model_.layout().numel, wire_.rank(), wire_.size()));
    return result;
  }

  Transport& wire_;
  const TrainOptions& options_;
  const DataPair& data_;
  const Observer& observer_;
  std::shared_ptr<Network> network_;
  FlatModel model_;
  Schedule schedule_;
  Session session_;
  Sgd sgd_;
  CheckpointStore store_;
  double steps_per_epoch_ = 1;
  Seconds start_{0};
  std::uint64_t bytes_before_ = 0;
  Counters counters_;
  LossSum losses_;
  std::uint64_t last_meeting_ = 0;  // after this step
  StepReport last_;
};

}  // namespace

TrainResult train(Transport& wire, const TrainOptions& options, const DataPair& data,
                  const Observer& observer) {
  // One thread per worker: several workers usually share a machine.
  set_compute_threads(1);
  return Run(wire, options, data, observer).run();
}

std::size_t check(const TrainOptions& options, const DataPair& data) {
  const auto network = make_network(options.model, data.train->shape(), options.seed);
  Schedule::parse(options.lr_schedule, options.learning_rate, 1);
  make_strategy(options.session.strategy);
  std::size_t parameters = 0;
  for (const auto& tensor : network->parameters()) {
    parameters += static_cast<std::size_t>(tensor.numel());
  }
  return parameters;
}

void check_resume(const TrainOptions& options, std::size_t parameters, int rank, int workers) {
  checkpoints(options, parameters, rank, workers).check_resumable();
}

std::uint64_t total_steps(const RunLength& length, std::size_t examples, std::size_t batch,
                          int workers) {
  if (length.steps > 0) return length.steps;
  const double global = static_cast<double>(batch) * workers;
  if (length.samples > 0) {
    return static_cast<std::uint64_t>(std::ceil(static_cast<double>(length.samples) / global));
  }
  const double per_epoch = std::ceil(static_cast<double>(examples) / global);
  return static_cast<std::uint64_t>(std::ceil(length.epochs * per_epoch));
}

std::vector<ModelHelp> model_list() {
  std::vector<ModelHelp> out;
  for (const ModelEntry& model : models()) out.push_back({model.name, model.help});
  return out;
}

}  // namespace thinwire::trainer
