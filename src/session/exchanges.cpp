#include "session/exchanges.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/random.h"

namespace thinwire {
namespace {

// Every bucket but the first, which draws what a single bucket would, has a seed of its own.
RunOptions run_of_bucket(RunOptions run, std::size_t bucket) {
  if (bucket > 0) {
    const auto bits = base::philox(run.seed, bucket, 0, base::Purpose::bucket);
    run.seed = std::uint64_t{bits[0]} << 32 | bits[1];
  }
  return run;
}

}  // namespace

Session::Exchanges::Exchanges(const StrategyContext& context, const std::vector<Bucket>& buckets,
                              const std::vector<std::unique_ptr<Strategy>>& strategies)
    : context_(context) {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    parts_.push_back(
        std::make_unique<Part>(buckets[i], *strategies[i], run_of_bucket(context.run, i)));
  }
  if (parts_.size() == 1) return;
  lane_ = context.wire.lane();
  worker_ = std::make_unique<transport::BackgroundWorker>(context.wire.runtime());
}

StrategyContext Session::Exchanges::context_of(Part& part) const {
  Transport& wire = lane_ ? *lane_ : context_.wire;
  return {wire, part.bucket.layout, part.run, part.stats, context_.log, context_.first_worker};
}

void Session::Exchanges::begin() {
  for (const auto& part : parts_) part->strategy.begin(context_of(*part));
}

void Session::Exchanges::submit(std::size_t bucket, const ModelView& model, std::uint64_t step,
                                Seconds own_time) {
  Part& part = *parts_.at(bucket);
  if (part.submitted) throw std::logic_error("Session::submit: the bucket was submitted already");
  const std::size_t begin = part.bucket.begin, numel = part.bucket.layout.numel;
  const bool has_params = !model.params.empty();
  part.params = has_params ? Floats(model.params.subspan(begin, numel)) : Floats();
  part.grads = model.grads.subspan(begin, numel);
  part.step = step;
  const auto all = static_cast<double>(std::max<std::size_t>(model.grads.size(), 1));
  part.own_time = own_time * (static_cast<double>(numel) / all);
  part.timeout = context_.wire.timeout();
  part.submitted = true;
  if (!worker_) return exchange(part);
  part.ticket = worker_->post([this, &part] { exchange(part); });
}

// The time of an exchange that is not the strategy's own computing is the wire's.
void Session::Exchanges::exchange(Part& part) {
  if (lane_) lane_->set_timeout(part.timeout);  // here, since the lane is this task's
  const StrategyContext context = context_of(part);
  const Transport& wire = context.wire;
  const Seconds start = wire.now(), codec = part.stats.codec;
  part.update = part.strategy.exchange(
      {{context}, part.step, part.params, part.grads, part.own_time});
  const bool free = wire.runtime().simulated() && !part.run.charge_codec;
  const Seconds computed = free ? Seconds(0) : part.stats.codec - codec;
  part.stats.wire += wire.now() - start - computed;
}

void Session::Exchanges::wait(std::size_t bucket) {
  if (worker_) worker_->wait(parts_.at(bucket)->ticket);
}

Update Session::Exchanges::wait_all(Stats& stats) {
  for (const auto& part : parts_) {
    if (!part->submitted) throw std::logic_error("Session::wait_all: a bucket was not submitted");
  }
  for (const auto& part : parts_) part->submitted = false;
  for (std::size_t i = 0; i < parts_.size(); ++i) wait(i);
  stats.residual_ratio = 0;
  for (const auto& part : parts_) {
    stats.codec += std::exchange(part->stats.codec, Seconds(0));
    stats.wire += std::exchange(part->stats.wire, Seconds(0));
    stats.wait += std::exchange(part->stats.wait, Seconds(0));
    stats.residual_ratio = std::max(stats.residual_ratio, part->stats.residual_ratio);
  }
  return parts_.size() == 1 ? parts_[0]->update : join_updates();
}

Update Session::Exchanges::join_updates() {
  Update out{false, true, {}};
  indices_.clear();
  for (const auto& part : parts_) {
    out.skip = out.skip || part->update.skip;
    out.sparse = out.sparse && part->update.sparse;
    const auto begin = static_cast<std::uint32_t>(part->bucket.begin);
    for (const std::uint32_t index : part->update.indices) indices_.push_back(begin + index);
  }
  if (out.sparse) out.indices = indices_;
  return out;
}

}  // namespace thinwire
