#include "session/exchanges.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/random.h"
#include "thinwire/error.h"

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

// Buckets say the same things at different times, and a reader must know which one does.
LogSink log_of_bucket(const LogSink& log, std::size_t bucket, std::size_t buckets) {
  if (!log || buckets == 1) return log;
  return [log, bucket, buckets](LogLevel level, std::string_view text) {
    log(level, fmt::format("bucket {} of {}: {}", bucket + 1, buckets, text));
  };
}

}  // namespace

Session::Exchanges::Exchanges(const StrategyContext& context, const std::vector<Bucket>& buckets,
                              const std::vector<std::unique_ptr<Strategy>>& strategies,
                              Selection selection)
    : context_(context) {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    parts_.push_back(
        std::make_unique<Part>(buckets[i], *strategies[i], run_of_bucket(context.run, i)));
    parts_.back()->log = log_of_bucket(context.log, i, buckets.size());
  }
  if (parts_.size() == 1) return;
  if (selection == Selection::carry) {
    std::vector<std::size_t> sizes;
    for (const Bucket& bucket : buckets) sizes.push_back(bucket.layout.numel);
    shares_.emplace(std::move(sizes));
  }
  lane_ = context.wire.lane();
  worker_ = std::make_unique<transport::BackgroundWorker>(context.wire.runtime());
}

StrategyContext Session::Exchanges::context_of(Part& part) const {
  Transport& wire = lane_ ? *lane_ : context_.wire;
  return {wire, part.bucket.layout, part.run, part.stats, part.log, context_.first_worker};
}

GradientStep Session::Exchanges::step_of(Part& part) const {
  return {{context_of(part)}, part.step, part.params, part.grads, part.density_share};
}

void Session::Exchanges::begin() {
  // The messages of strategies depend here only on the run, so that those of the first bucket are
  // enough.
  const LogSink silent;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const StrategyContext all = context_of(*parts_[i]);
    parts_[i]->strategy.begin({all.wire, all.layout, all.run, all.stats,
                               i == 0 ? context_.log : silent, all.first_worker});
  }
}

void Session::Exchanges::submit(std::size_t bucket, const ModelView& model, std::uint64_t step) {
  Part& part = *parts_.at(bucket);
  if (part.submitted) throw std::logic_error("Session::submit: the bucket was submitted already");
  const std::size_t begin = part.bucket.begin, numel = part.bucket.layout.numel;
  const bool has_params = !model.params.empty();
  part.params = has_params ? Floats(model.params.subspan(begin, numel)) : Floats();
  part.grads = model.grads.subspan(begin, numel);
  part.step = step;
  part.density_share = shares_ ? shares_->share(bucket) : 1;
  part.timeout = context_.wire.timeout();
  part.exchanged = false;
  if (worker_) {
    part.ticket = worker_->post([this, &part] { exchange(part); });
  } else {
    exchange(part);
  }
  part.submitted = true;
}

// The time of an exchange that is not the strategy's own computing is the wire's.
void Session::Exchanges::exchange(Part& part) {
  if (lane_) lane_->set_timeout(part.timeout);  // here, since the lane is this task's
  const GradientStep step = step_of(part);
  const Transport& wire = step.wire;
  const Seconds start = wire.now(), codec = part.stats.codec;
  part.update = part.strategy.exchange(step);
  part.exchanged = true;
  const bool free = wire.runtime().simulated() && part.run.codec_time != CodecTime::charged;
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
  std::exception_ptr failure;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    try {
      wait(i);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  const Update update = failure ? Update::skipped() : join_updates();
  if (update.skip) return_updates();
  if (failure) std::rethrow_exception(failure);
  stats.residual_ratio = 0;
  for (const auto& part : parts_) {
    stats.codec += std::exchange(part->stats.codec, Seconds(0));
    stats.wire += std::exchange(part->stats.wire, Seconds(0));
    stats.wait += std::exchange(part->stats.wait, Seconds(0));
    stats.residual_ratio = std::max(stats.residual_ratio, part->stats.residual_ratio);
  }
  if (shares_ && !update.skip) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      shares_->observe(i, parts_[i]->grads, parts_[i]->update);
    }
    shares_->finish_step();
  }
  return update;
}

// The vote of a bucket knows only its own gradients, since the others may not be computed yet. So
// buckets before and after one that is skipped have been exchanged, and their strategies have taken
// their entries out of the residuals.
void Session::Exchanges::return_updates() {
  for (const auto& part : parts_) {
    if (part->exchanged && !part->update.skip) part->strategy.return_update(step_of(*part));
  }
}

void Session::Exchanges::set_shares(std::vector<double> shares) {
  if (shares_) return shares_->set(std::move(shares));
  if (!shares.empty()) {
    throw WireError(
        "session: the state has density shares of buckets, but this strategy has no select=carry; "
        "resume with the options that saved it");
  }
}

Update Session::Exchanges::join_updates() {
  if (parts_.size() == 1) return parts_[0]->update;
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
