#include "c_api/bound_session.h"

#include <fmt/format.h>

#include "c_api/strategy_info.h"
#include "c_api/usage_error.h"
#include "thinwire/error.h"

namespace thinwire::c_api {
namespace {

SessionOptions with_log(SessionOptions options, LogSink log) {
  options.log = std::move(log);
  return options;
}

}  // namespace

BoundSession::BoundSession(std::shared_ptr<Group> group, const OpenOptions& options)
    : group_(std::move(group)),
      layout_(options.layout),
      run_(options.session.run),
      models_(exchanges_models(*make_strategy(options.session.strategy))),
      wire_(group_->make_lane()),  // after all that may find fault with the options
      checks_replicas_(options.session.check_every > 0) {
  session_ = std::make_unique<Session>(*wire_, with_log(options.session, group_->log_sink()));
  group_->session_opened();
}

BoundSession::~BoundSession() {
  calls_.reset();  // waits for the call that is being executed
  note_end_of_begin();
  session_.reset();
  group_->session_closed();
}

void BoundSession::require_no_failure() const {
  if (const std::exception_ptr failure = calls_->failure()) std::rethrow_exception(failure);
}

void BoundSession::require(Stage expected, const char* call) const {
  require_no_failure();
  if (stage_ == expected) return;
  throw UsageError(fmt::format(
      "session: {} is called out of order; the order is begin, then for each step submit of all "
      "buckets, wait and finish_step, then end",
      call));
}

void BoundSession::require_idle(const char* call) const {
  if (calls_->idle()) return;
  throw UsageError(
      fmt::format("session: {} is called while an operation is going on; wait for it first", call));
}

void BoundSession::require_params(MutFloats params, const char* call) const {
  if (params.size() == layout_.numel) return;
  throw UsageError(fmt::format("session: {} needs all parameters ({} given, the tensors have {})",
                               call, params.size(), layout_.numel));
}

void BoundSession::begin(MutFloats params, std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  require(Stage::opened, "begin");
  require_idle("begin");
  require_params(params, "begin");
  group_->session_begins();
  begins_ = true;
  stage_ = Stage::between_steps;
  calls_->start([this, params, step] { session_->begin(view(params), step); });
}

void BoundSession::submit(std::size_t bucket, MutFloats params, MutFloats grads) {
  const std::lock_guard lock(mutex_);
  require_no_failure();
  const bool first = stage_ == Stage::between_steps;
  first ? require_idle("submit") : require(Stage::submitting, "submit");
  const std::size_t buckets = first ? session_->buckets().size() : submitted_.size();
  if (bucket >= buckets) {
    throw UsageError(fmt::format("session: there is no bucket {} ({} buckets, numbered from 0)",
                                 bucket, buckets));
  }
  if (!first && submitted_[bucket]) {
    throw UsageError(fmt::format("session: bucket {} was submitted twice in a step", bucket));
  }
  if (grads.size() != layout_.numel) {
    throw UsageError(
        fmt::format("session: submit needs all gradients ({} given, the tensors have "
                    "{})",
                    grads.size(), layout_.numel));
  }
  if (!params.empty() || models_ || run_.sgd.weight_decay != 0) require_params(params, "submit");
  if (first) {  // only now: a submit that is refused must not begin a step
    missing_ = buckets;
    submitted_.assign(buckets, false);
    stage_ = Stage::submitting;
  }
  submitted_[bucket] = true;
  calls_->start([this, bucket, params, grads] { session_->submit(view(params, grads), bucket); });
  if (--missing_ > 0) return;
  stage_ = Stage::exchanged;
  calls_->start([this, params, grads] { skipped_ = session_->wait_all(view(params, grads)).skip; });
}

void BoundSession::finish_step(MutFloats params, const StepTaken& taken) {
  const std::lock_guard lock(mutex_);
  require(Stage::exchanged, "finish_step");
  require_idle("finish_step");
  if (models_ || checks_replicas_ || !params.empty()) require_params(params, "finish_step");
  stage_ = Stage::between_steps;
  skipped_ = false;
  calls_->start([this, params, taken] { session_->finish_step(view(params), taken); });
}

void BoundSession::end(MutFloats params) {
  const std::lock_guard lock(mutex_);
  require(Stage::between_steps, "end");
  require_idle("end");
  if (models_) require_params(params, "end");
  stage_ = Stage::ended;
  calls_->start([this, params] { session_->end(view(params)); });
}

void BoundSession::quiesce(MutFloats params) {
  const std::lock_guard lock(mutex_);
  require(Stage::between_steps, "quiesce");
  require_idle("quiesce");
  if (models_) require_params(params, "quiesce");
  calls_->start([this, params] { session_->quiesce(view(params)); });
}

void BoundSession::sum_metrics() {
  const std::lock_guard lock(mutex_);
  require(Stage::between_steps, "sum_metrics");
  require_idle("sum_metrics");
  calls_->start([this] { metrics_ = session_->metrics(); });
}

bool BoundSession::wait(double seconds, bool& skipped) {
  {
    const std::lock_guard lock(mutex_);
    if (stage_ == Stage::submitting && !calls_->failure()) {
      throw UsageError(
          fmt::format("session: wait before all buckets are submitted ({} missing)", missing_));
    }
  }
  std::exception_ptr failure;
  try {
    if (!calls_->wait(seconds)) return false;
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  note_end_of_begin();
  if (failure) std::rethrow_exception(failure);
  skipped = skipped_;
  return true;
}

void BoundSession::note_end_of_begin() {
  if (std::exchange(begins_, false)) group_->session_began();
}

Payload BoundSession::save() {
  const std::lock_guard lock(mutex_);
  require(Stage::between_steps, "save");
  require_idle("save");
  Payload out;
  session_->save(out);
  return out;
}

void BoundSession::load(Bytes state) {
  const std::lock_guard lock(mutex_);
  require(Stage::opened, "load");
  session_->load(state);
}

nlohmann::json BoundSession::info() {
  const std::lock_guard lock(mutex_);
  require_idle("info");
  nlohmann::json buckets = nlohmann::json::array();
  for (const Bucket& bucket : session_->buckets()) {
    buckets.push_back({{"begin", bucket.begin}, {"numel", bucket.layout.numel}});
  }
  return {{"serves", session_->serves()}, {"parameters", layout_.numel}, {"buckets", buckets}};
}

nlohmann::json BoundSession::stats() {
  const std::lock_guard lock(mutex_);
  require_idle("stats");
  const Stats& stats = session_->stats();
  const Traffic& traffic = wire_->traffic();
  nlohmann::json metrics = nlohmann::json::object();
  for (const Metric& metric : metrics_) {
    if (metric.group.empty()) metrics[metric.name] = metric.value();
  }
  return {{"steps", stats.steps},
          {"skipped_steps", stats.skipped_steps},
          {"bytes_sent", traffic.bytes_sent.load()},
          {"bytes_received", traffic.bytes_received.load()},
          {"codec_seconds", stats.codec.count()},
          {"wire_seconds", stats.wire.count()},
          {"wait_seconds", stats.wait.count()},
          {"residual_ratio", stats.residual_ratio},
          {"consensus_distance", stats.consensus_distance},
          {"step_scale", session_->step_scale()},
          {"global_samples", session_->global_samples()},
          {"metrics", metrics}};
}

}  // namespace thinwire::c_api
