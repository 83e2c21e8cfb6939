#include "trainer/train.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "thinwire/collective.h"
#include "trainer/checkpoint.h"
#include "trainer/computing.h"
#include "trainer/counters.h"
#include "trainer/data/loader.h"
#include "trainer/evaluate.h"
#include "trainer/flat_model.h"
#include "trainer/milestones.h"
#include "trainer/models/network.h"
#include "trainer/schedule.h"

namespace thinwire::trainer {
namespace {

// The sum of losses since the last milestone, weighted by examples.
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
  session.run.samples = static_cast<std::uint64_t>(
      std::ceil(static_cast<double>(options.steps) * static_cast<double>(data.train->size()) /
                session.run.steps_per_epoch));
  const Schedule schedule = Schedule::parse(options.lr_schedule, options.learning_rate, workers);
  session.run.warmup_steps =
      static_cast<std::uint64_t>(std::ceil(schedule.warmup_epochs() * session.run.steps_per_epoch));
  session.run.sgd = options.sgd;
  session.run.seed = options.seed;
  if (options.step_time == Seconds(0)) session.run.codec_time = CodecTime::charged;
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
        workers_(training_workers(options.session.strategy, wire.size())),
        serves_(wire.rank() < wire.size() - workers_),
        schedule_(Schedule::parse(options.lr_schedule, options.learning_rate, workers_)),
        session_(wire, session_options(options, data, workers_)),
        store_(checkpoints(options, model_.layout().numel, wire.rank(), wire.size())) {}

  TrainResult run() {
    const std::uint64_t first = options_.resume ? resume() : start_fresh();
    session_.begin(model_.view(), counters_.steps);
    const int worker = serves_ ? 0 : wire_.rank() - session_.first_worker();
    LoaderOptions reading{worker, workers_, options_.batch, options_.seed, counters_.steps};
    reading.serves = serves_;
    reading.ahead = serves_ ? 0 : batches_ahead(wire_);
    Loader loader(*data_.train, reading);
    last_milestone_ = counters_.steps;
    steps_per_epoch_ = static_cast<double>(loader.steps_per_epoch());
    last_.step = first;
    last_.position = static_cast<double>(first);
    last_.epoch = static_cast<double>(first) / steps_per_epoch_;
    last_.time = Seconds(counters_.time);
    start_ = wire_.now();
    bytes_before_ = wire_.traffic().bytes_sent;
    Milestones milestones(first, options_.steps, options_.eval_every,
                          options_.out.empty() ? 0 : options_.save_every);
    while (!milestones.over()) {
      const Seconds begin = wire_.now();
      const Batch& batch = loader.next();
      aside_ += wire_.now() - begin;
      step(batch);
      while (const auto milestone = milestones.due(position())) {
        off_the_clock([&] {
          share_losses();
          if (milestone->test) test();
        });
        if (milestone->save && !options_.out.empty()) off_the_clock([&] { save(milestone->step); });
      }
    }
    return finish();
  }

 private:
  bool is_asynchronous() const { return session_.sync_mode() == SyncMode::asynchronous; }
  bool is_synchronous() const { return session_.sync_mode() == SyncMode::synchronous; }

  // Returns how far all workers are, in steps.
  double position() const {
    if (!is_asynchronous()) return static_cast<double>(session_.step());
    return static_cast<double>(session_.global_samples()) * steps_per_epoch_ /
           static_cast<double>(data_.train->size());
  }

  void step(const Batch& batch) {
    const Counters before = counters_now();
    StepReport report;
    report.loss = compute(batch);
    report.learning_rate = schedule_.rate(position() / steps_per_epoch_,
                                          static_cast<double>(options_.steps) / steps_per_epoch_);
    const Update update = session_.exchange(model_.view());
    session_.apply(model_.view(), update, static_cast<float>(report.learning_rate));
    session_.finish_step(model_.view(), {batch.examples, report.learning_rate});
    counters_.samples += is_asynchronous() ? batch.examples : batch.global_examples;
    ++counters_.steps;
    losses_.loss += report.loss * static_cast<double>(batch.examples);
    losses_.examples += static_cast<double>(batch.examples);
    if (wire_.rank() == 0) notify(report, before);
  }

  // Computes the gradients of this worker's batch and returns its loss. In synchronous training
  // they are weighted so that their mean over the workers is the gradient of the global batch. It
  // takes as long as the options say.
  double compute(const Batch& batch) {
    if (serves_) return 0;
    const Seconds start = wire_.now();
    const auto real_start = std::chrono::steady_clock::now();
    model_.zero_grads();
    double loss = 0;
    if (batch.examples > 0) {
      network_->train();
      network_->random = {options_.seed, session_.step(), static_cast<std::uint64_t>(wire_.rank())};
      const torch::Tensor mean = loss_of(*network_, to_tensors(batch, data_.train->shape()));
      loss = mean.item<double>();
      const double weight = !is_synchronous() ? 1
                                              : static_cast<double>(batch.examples) * workers_ /
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
    now.wait += session_.stats().wait.count();
    now.bytes_sent += wire_.traffic().bytes_sent - bytes_before_;
    now.skipped += session_.stats().skipped_steps;
    return now;
  }

  void notify(StepReport& report, const Counters& before) {
    const Counters now = counters_now();
    report.step = session_.step();
    report.steps = options_.steps;
    report.position = position();
    report.epoch = report.position / steps_per_epoch_;
    report.time = Seconds(now.time);
    report.compute = Seconds(now.compute - before.compute);
    report.codec = Seconds(now.codec - before.codec);
    report.wire = Seconds(now.wire - before.wire);
    report.bytes_sent = now.bytes_sent - before.bytes_sent;
    report.residual_ratio = session_.stats().residual_ratio;
    const std::uint64_t samples = is_asynchronous() ? session_.global_samples() : now.samples;
    report.samples_per_second = static_cast<double>(samples) / std::max(now.time, 1e-9);
    last_ = report;
    const Seconds begin = wire_.now();
    observer_.step(report);
    aside_ += wire_.now() - begin;
  }

  // Runs an action that is no part of training (a test, a checkpoint): its time does not count.
  template <class Action>
  void off_the_clock(Action action) {
    const Seconds begin = wire_.now();
    action();
    start_ += wire_.now() - begin;
  }

  void share_losses() {
    const LossSum mine = std::exchange(losses_, {});
    std::vector<LossSum> all(static_cast<std::size_t>(wire_.size()));
    allgather(wire_, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    LossSum total;
    for (const LossSum& each : all) {
      total.loss += each.loss;
      total.examples += each.examples;
    }
    const std::uint64_t first = std::exchange(last_milestone_, session_.step()) + 1;
    if (wire_.rank() == 0 && total.examples > 0) {
      observer_.met({first, last_milestone_, total.loss / total.examples});
    }
  }

  // Tests the mean of all models; each worker goes on with its own. A mean that is formed only for
  // a test does not count as traffic of the strategy.
  void test() {
    if (is_synchronous()) {
      evaluate();
      return;
    }
    const std::vector<float> own(model_.params().begin(), model_.params().end());
    allreduce_mean(wire_, model_.params());
    bytes_before_ += allreduce_bytes(own.size(), wire_.rank(), wire_.size());
    evaluate();
    std::ranges::copy(own, model_.params().begin());
  }

  Evaluation evaluate() {
    average_statistics();
    const Evaluation result = trainer::evaluate(wire_, *network_, *data_.test);
    if (wire_.rank() == 0) observer_.evaluated(last_, result);
    return result;
  }

  // Running means and variances differ between the workers; the test uses their mean.
  void average_statistics() {
    const MutFloats statistics = model_.statistics();
    if (statistics.empty() || wire_.size() == 1) return;
    if (serves_) std::ranges::fill(statistics, 0.0f);
    allreduce_sum(wire_, statistics);
    for (float& value : statistics) value /= static_cast<float>(workers_);
  }

  void save(std::uint64_t step) {
    session_.quiesce(model_.view());
    Counters counters = counters_now();
    Payload strategy;
    session_.save(strategy);
    auto own = pack({{"statistics", std::as_bytes(model_.statistics())},
                     {"counters", raw(counters)},
                     {"strategy", strategy}});
    const auto model =
        pack({{"params", std::as_bytes(model_.params())}, {"velocity", std::as_bytes(velocity())}});
    if (!is_synchronous()) own.insert(own.end(), model.begin(), model.end());
    store_.save(wire_, step, own, model, options_.keep);
    if (wire_.rank() == 0) observer_.saved(step);
  }

  MutFloats velocity() { return session_.velocity(model_.layout().numel); }

  std::uint64_t start_fresh() {
    if (!options_.out.empty() && store_.set_aside_earlier() && wire_.rank() == 0) {
      observer_.note("checkpoints: " + options_.out +
                     "/checkpoints held an earlier run; its files are now in earlier-rank-* there");
    }
    return 0;
  }

  std::uint64_t resume() {
    const CheckpointStore::Loaded loaded = store_.load(wire_);
    unpack(loaded.own, "statistics", std::as_writable_bytes(model_.statistics()));
    unpack(loaded.own, "counters", raw(counters_));
    if (wire_.rank() == 0 || !is_synchronous()) {
      const std::vector<Section>& from = is_synchronous() ? loaded.model : loaded.own;
      unpack(from, "params", std::as_writable_bytes(model_.params()));
      unpack(from, "velocity", std::as_writable_bytes(velocity()));
    }
    if (is_synchronous()) broadcast(wire_, std::as_writable_bytes(velocity()));
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
    // In synchronous training the replicas are the same already; if not, end() must not hide it.
    const bool before = !is_synchronous() || session_.replicas_identical(model_.view());
    std::vector<float> own;
    if (!is_synchronous()) own.assign(model_.params().begin(), model_.params().end());
    session_.end(model_.view());
    result.replicas_identical = before && session_.replicas_identical(model_.view());
    const Counters mine = counters_now();
    const double worst = is_synchronous() ? 1 : worst_accuracy(own);
    result.test = evaluate();
    result.accuracy_worst_worker = is_synchronous() ? result.test.accuracy : worst;
    sum_counters(wire_, mine, aside_, session_.sync_mode(), result);
    result.consensus_distance = session_.stats().consensus_distance;
    result.residual_ratio = session_.stats().residual_ratio;
    result.metrics = session_.metrics();
    result.parameters = model_.layout().numel;
    result.dense_bytes_per_worker_step =
        static_cast<double>(allreduce_bytes(model_.layout().numel, wire_.rank(), wire_.size()));
    return result;
  }

  // Returns the lowest accuracy of the models that the workers had before they became the same,
  // each on the whole test set.
  double worst_accuracy(std::span<float> own) {
    std::ranges::swap_ranges(own, model_.params());
    const double mine = evaluate_alone(*network_, *data_.test).accuracy;
    std::ranges::swap_ranges(own, model_.params());
    std::vector<double> all(static_cast<std::size_t>(wire_.size()));
    allgather(wire_, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    return std::ranges::min(all);
  }

  Transport& wire_;
  const TrainOptions& options_;
  const DataPair& data_;
  const Observer& observer_;
  std::shared_ptr<Network> network_;
  FlatModel model_;
  int workers_;  // that train; the ranks before them only serve
  bool serves_;
  Schedule schedule_;
  Session session_;
  CheckpointStore store_;
  double steps_per_epoch_ = 1;
  Seconds start_{0};
  std::uint64_t bytes_before_ = 0;
  Counters counters_;
  Seconds aside_{0};  // of this process, waiting for input and writing the log
  LossSum losses_;
  std::uint64_t last_milestone_ = 0;  // after this step
  StepReport last_;
};

}  // namespace

TrainResult train(Transport& wire, const TrainOptions& options, const DataPair& data,
                  const Observer& observer) {
  // One thread per worker: several workers usually share a machine.
  prepare_computing();
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

std::vector<ModelHelp> model_list() {
  std::vector<ModelHelp> out;
  for (const ModelEntry& model : models()) out.push_back({model.name, model.help});
  return out;
}

}  // namespace thinwire::trainer
