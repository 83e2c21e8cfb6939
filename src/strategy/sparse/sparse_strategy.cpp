#include "strategy/sparse/sparse_strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/spec.h"
#include "kernel/finite.h"
#include "message/values.h"
#include "strategy/common/entries.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/state.h"
#include "thinwire/collective.h"
#include "transport/payload_scale.h"

namespace thinwire::strategy {
namespace {

constexpr std::uint32_t kStateVersion = 4;
constexpr std::size_t kMostParameters = std::size_t{1} << 32;

// Returns the bytes that `count` entries take if no bit of their indices is wasted.
double entropy_bytes(message::ValueCoding coding, std::size_t numel, std::size_t count) {
  return message::index_entropy_bits(numel, count) / 8 +
         static_cast<double>(message::values_bytes(coding, count));
}

double norm_at(Floats values, std::span<const std::uint32_t> indices) {
  double sum = 0;
  for (const std::uint32_t index : indices) {
    sum += static_cast<double>(values[index]) * static_cast<double>(values[index]);
  }
  return std::sqrt(sum);
}

// Returns the length of the beginning of a run in which momentum=auto masks: gradients of an
// untrained network are long, and momentum that arrives late makes them longer. LeNet with gtopk on
// 8 workers, which dense trains at the same learning rate, was about to diverge in step 67 of 1407
// without this. A short run cannot afford it: 4 of 94 steps cost 2 points of accuracy.
std::uint64_t masked_steps(const RunOptions& run) {
  constexpr std::uint64_t kOfUnknownLength = 100, kShortRun = 400;
  if (run.steps == 0) return std::max(kOfUnknownLength, run.warmup_steps);
  return run.steps < kShortRun ? 0 : std::max(run.steps / 20, run.warmup_steps);
}

}  // namespace

SparseStrategy::SparseStrategy(base::Spec& spec, const Choices& choices)
    : density_(spec, choices.density) {
  static constexpr std::string_view kValues[] = {"bf16", "fp32", "int5"};
  static constexpr std::string_view kMomentum[] = {"auto", "corrected", "unmasked", "plain"};
  static constexpr std::string_view kSmall[] = {"include", "dense"};
  static constexpr std::string_view kSelect[] = {"bucket", "global", "carry"};
  const std::string values = spec.choice("values", std::span(kValues).first(choices.int5 ? 3 : 2));
  value_coding_ = values == "int5"   ? message::ValueCoding::int5
                  : values == "bf16" ? message::ValueCoding::bf16
                                     : message::ValueCoding::fp32;
  const std::string momentum = spec.choice("momentum", kMomentum);
  corrected_ = momentum != "plain";
  const bool always = momentum == "corrected" || (momentum == "auto" && !density_.automatic());
  masking_ = always ? Masking::always : momentum == "auto" ? Masking::early : Masking::never;
  small_dense_ = choices.small && spec.choice("small", kSmall) == "dense";
  if (!choices.select) return;
  const std::string select = spec.choice("select", kSelect);
  selection_ = select == "global"  ? Selection::global
               : select == "carry" ? Selection::carry
                                   : Selection::bucket;
}

// Weight decay belongs to the local gradient, or it would act on parameters whose gradients are
// still held back. Momentum acts before the selection (corrected) or after the exchange (plain).
SgdConfig SparseStrategy::own_part(const SgdConfig& asked) const {
  if (corrected_) return asked;
  return {0, asked.weight_decay, false};
}

SgdConfig SparseStrategy::optimizer_share(const SgdConfig& asked) const {
  if (corrected_) return {};
  return {asked.momentum, 0, asked.nesterov};
}

void SparseStrategy::begin(const StrategyContext& context) {
  const Layout& layout = context.layout;
  if (const std::size_t numel = transport::represented_bytes(context.wire, layout.numel);
      numel > kMostParameters) {
    throw ConfigError(fmt::format(
        "sparse strategy: the model has too many parameters ({}); at most 2^32", numel));
  }
  steps_ = context.run.steps;
  density_.begin(context.run, context.workers(), applied(context.workers()));
  run_ = {layout.numel, density_.target(), steps_,
          steps_ > 0,   context.workers(), context.contributes()};
  warn_if_covers_little(context);
  if (density_.automatic()) report_density(context);
  if (small_dense_) small_.find(layout);
  tally_.begin(layout);
  const SgdConfig own = own_part(context.run.sgd);
  const std::size_t numel = context.contributes() ? layout.numel : 0;
  prepare(residual_, numel, "residual");
  prepare(velocity_, own.momentum == 0 ? 0 : numel, "velocity");
  prepare(small_.velocity(), own.momentum == 0 ? 0 : small_.numel(), "velocity of small tensors");
}

Update SparseStrategy::exchange(const GradientStep& context) {
  before_ = {density_.state(), guard_, coverage_};
  try {
    return exchange_guarded(context);
  } catch (...) {
    restore(before_);  // a step that failed leaves no trace
    throw;
  }
}

void SparseStrategy::restore(const Record& record) {
  density_.restore(record.density);
  guard_ = record.guard;
  coverage_ = record.coverage;
  run_.density = density_.target();
}

// The update is the mean over the workers: if each of them holds it back, nothing of their sum is
// lost.
void SparseStrategy::return_update(const GradientStep& context) {
  restore(before_);
  if (small_dense_) small_.undo_put(context.grads);
  for (std::size_t i = 0; i < residual_.size(); ++i) residual_[i] += context.grads[i];
}

Update SparseStrategy::exchange_guarded(const GradientStep& context) {
  if (!agree_finite(context)) return Update::skipped();
  decide_density(context);
  masks_now_ = masking_ == Masking::always ||
               (masking_ == Masking::early && context.step < masked_steps(context.run));
  const bool watched = context.step % kWatchEvery == 0;
  const double gradient_norm = watched ? norm(context.grads) : 0;
  timed_codec(context, [&] { guard_.clip(context.grads); });
  const SgdConfig own = own_part(context.run.sgd);
  if (small_dense_) small_.take(context, residual_, own.weight_decay);
  const std::size_t k = count_entries(context);
  const bool dense = safeguards().dense || is_dense_shorter(context.wire, context.layout.numel, k);
  timed_codec(context, [&] {
    if (!context.contributes()) {
      picks_.clear();
      std::ranges::fill(context.grads, 0.0f);
    } else {
      dense ? select_all(context) : select(context, k);
    }
  });
  delivered_ = 0;
  if (!exchange_all(context, dense, k)) {  // sums that overflowed, on all ranks
    withdraw();
    give_picks_back(context.grads);
    restore(before_);
    return Update::skipped();
  }
  timed_codec(context, [&] {
    if (dense) {
      std::ranges::fill(residual_, 0.0f);
      if (safeguards().dense) std::ranges::fill(velocity_, 0.0f);
      guard_.shorten(context.grads);
    } else {
      return_unapplied();
    }
    guard_.end_step(dense ? norm(context.grads) : norm_at(context.grads, changed()));
    if (small_dense_) small_.put(context.grads, own);
  });
  count_step(context, dense, k);
  if (watched) watch_residual(context, gradient_norm);
  if (dense || small_dense_) return Update::dense();
  return Update::of(changed());
}

std::size_t SparseStrategy::count_entries(const GradientStep& context) const {
  const std::size_t numel = context.layout.numel;
  const std::size_t k = density_.count(numel, context.step, context.run);
  const double more = safeguards().density * context.density_share;
  if (more == 1) return k;
  return std::clamp<std::size_t>(
      static_cast<std::size_t>(std::llround(more * static_cast<double>(k))),
      std::min<std::size_t>(k, 1), numel);
}

void SparseStrategy::count_step(const GradientStep& context, bool dense, std::size_t k) {
  const std::size_t numel = context.layout.numel;
  const std::size_t united = dense ? 0 : changed().size();
  coverage_.count({numel, k, picks_.size(), delivered_, united, dense});
  density_.count_step({context.step, static_cast<double>(delivered_), static_cast<double>(united)});
  run_.steps_left = steps_ > context.step ? steps_ - context.step - 1 : 0;
}

// Does all that can fail before the state changes for good. Returns false if a mean is not finite.
bool SparseStrategy::exchange_all(const GradientStep& context, bool dense, std::size_t k) {
  bool finite = true;
  try {
    if (dense) {
      finite = dense_mean(context);
    } else {
      finite = exchange_picks(context, k);
    }
    if (small_dense_) {
      finite = small_.exchange(context.wire) && finite;
    }
  } catch (...) {
    withdraw();
    give_picks_back(context.grads);
    throw;
  }
  return finite;
}

// Makes the dense mean over the ranks that have a gradient. Returns false if it is not finite.
bool SparseStrategy::dense_mean(const GradientStep& context) const {
  const MutFloats grads = context.grads;
  const int servers = context.first_worker;
  bool finite = true;
  if (servers == 0) {
    finite = allreduce_mean(context.wire, grads);
  } else {
    allreduce_sum(context.wire, grads);
  }
  if (servers == 0) return finite;
  timed_codec(context, [&] {
    for (float& value : grads) value /= static_cast<float>(context.workers());
    finite = kernel::all_finite(grads);
  });
  return finite;
}

// Undoes the selection of a step that failed: the residual becomes that of a step which selected
// nothing. This is exact, because a pick and its rounding error add up to what was picked. A pick
// that was rounded to infinity was nearly the largest float.
void SparseStrategy::give_picks_back(MutFloats grads) {
  for (std::size_t j = 0; j < picks_.size(); ++j) {
    float& held_back = residual_[picks_.indices[j]];
    const float pick = picks_.values[j];
    const bool overflowed = std::isinf(pick);
    held_back =
        overflowed ? std::copysign(std::numeric_limits<float>::max(), pick) : held_back + pick;
  }
  if (small_dense_) small_.return_gradients(residual_);
  std::ranges::fill(grads, 0.0f);  // it may hold half of the result of an exchange
}

// Asks all ranks before anything changes, so that a skipped step leaves no trace. Ranks that are
// late are waited for here, and not in the exchange. Two more bits of the vote are the alarms of
// the divergence guards.
bool SparseStrategy::agree_finite(const GradientStep& context) {
  constexpr std::uint32_t kFinite = 1, kCalm = 2, kNotUrgent = 4;
  std::uint32_t vote = 0;
  if (guard_.alarm() == Alarm::none) vote |= kCalm;
  if (guard_.alarm() != Alarm::urgent) vote |= kNotUrgent;
  timed_codec(context, [&] {
    if (!context.contributes() || kernel::all_finite(context.grads)) vote |= kFinite;
  });
  allreduce_and(context.wire, std::span(&vote, 1));
  if ((vote & kFinite) == 0) return false;
  const Alarm highest = (vote & kNotUrgent) == 0 ? Alarm::urgent
                        : (vote & kCalm) == 0    ? Alarm::growing
                                                 : Alarm::none;
  const std::string warning = guard_.begin_step(context.step, highest, density_.target());
  if (!warning.empty() && context.wire.rank() == 0) context.warn(warning);
  return true;
}

// Compares the average length of the messages, which is the same number on every rank.
bool SparseStrategy::is_dense_shorter(const Transport& wire, std::size_t numel,
                                      std::size_t k) const {
  if (k == numel) return true;
  const std::size_t all = transport::represented_bytes(wire, numel);
  const auto dense = static_cast<double>(allreduce_bytes(all, 0, wire.size()));
  return busiest_bytes(all, transport::represented_bytes(wire, k), wire.size()) >= dense;
}

double SparseStrategy::message_bytes(std::size_t numel, std::size_t k) const {
  return entropy_bytes(value_coding_, numel, k);
}

void SparseStrategy::pick(const GradientStep&, const kernel::Accumulation& accumulation,
                          std::size_t k, Sparse& picks) {
  top_k_.select(accumulation, k, picks);
}

void SparseStrategy::select(const GradientStep& context, std::size_t k) {
  const SgdConfig own = own_part(context.run.sgd);
  pick(context,
       {context.grads, residual_, velocity_, own.weight_decay == 0 ? Floats() : context.params,
        own.momentum, own.weight_decay, own.nesterov},
       k, picks_);
  if (value_coding_ == message::ValueCoding::int5) drop_zeros(picks_);
  errors_.resize(picks_.size());
  message::round_to_wire(value_coding_, picks_.values, errors_);
  for (std::size_t j = 0; j < picks_.size(); ++j) residual_[picks_.indices[j]] = errors_[j];
  drop_zeros(picks_);  // fewer than k entries were not 0
}

// Selects everything. Nothing stays in the residual and no momentum is stale: this is the momentum
// SGD of all workers together. The residual keeps a copy until the exchange is over.
void SparseStrategy::select_all(const GradientStep& context) {
  const SgdConfig own = own_part(context.run.sgd);
  picks_.clear();
  for (std::size_t i = 0; i < residual_.size(); ++i) {
    float gradient = context.grads[i];
    if (own.weight_decay != 0) gradient += own.weight_decay * context.params[i];
    float direction = gradient;
    if (!velocity_.empty() && own.nesterov) {
      velocity_[i] = own.momentum * (velocity_[i] + gradient);
      direction = velocity_[i] + gradient;
    } else if (!velocity_.empty()) {
      direction = velocity_[i] = own.momentum * velocity_[i] + gradient;
    }
    context.grads[i] = residual_[i] += direction;
  }
}

void SparseStrategy::watch_residual(const GradientStep& context, double gradient_norm) {
  const double held_back = norm(residual_);
  if (gradient_norm > 0) context.stats.residual_ratio = held_back / gradient_norm;
  guard_.watch_gradient(gradient_norm);
  const std::string warning =
      guard_.watch_residual(context.step, held_back, gradient_norm, density_.target());
  if (!warning.empty()) context.warn(warning);
}

void SparseStrategy::count_message(std::size_t numel, std::size_t entries, std::size_t bytes) {
  coded_.coordinates += static_cast<double>(entries);
  coded_.bytes += static_cast<double>(bytes);
  coded_.entropy_bytes += entropy_bytes(value_coding_, numel, entries);
}

void SparseStrategy::encode(const Sparse& entries, const message::SparseAddress& address,
                            Payload& out) {
  const std::size_t before = out.size();
  message::encode_sparse(entries, value_coding_, address, out);
  count_message(address.numel, entries.size(), out.size() - before);
}

std::vector<Metric> SparseStrategy::metrics() const {
  std::vector<Metric> out = {
      {"bytes_per_coordinate", coded_.bytes, coded_.coordinates},
      {"entropy_bytes_per_coordinate", coded_.entropy_bytes, coded_.coordinates}};
  coverage_.report(run_, out);
  tally_.report(out);
  return out;
}

void SparseStrategy::save(Payload& out) const {
  base::ByteWriter writer(out);
  writer.put(kStateVersion);
  put_floats(writer, residual_);
  put_floats(writer, velocity_);
  put_floats(writer, small_.velocity());
  writer.put<std::uint32_t>((said_coverage_ ? 1 : 0) | (said_dense_ ? 2 : 0));
  density_.save(writer);
  coverage_.save(writer);
  guard_.save(writer);
  save_exchange(writer);
}

void SparseStrategy::load(Bytes in) {
  base::ByteReader reader(in, "the state of a sparse strategy");
  expect_version(reader, kStateVersion, "sparse strategy");
  residual_ = get_floats(reader);
  velocity_ = get_floats(reader);
  small_.velocity() = get_floats(reader);
  const auto said = reader.get<std::uint32_t>();
  said_coverage_ = (said & 1) != 0;
  said_dense_ = (said & 2) != 0;
  density_.load(reader);
  coverage_.load(reader);
  guard_.load(reader);
  load_exchange(reader);
  reader.expect_end();
}

void SparseStrategy::save_exchange(base::ByteWriter&) const {}

void SparseStrategy::load_exchange(base::ByteReader&) {}

}  // namespace thinwire::strategy
