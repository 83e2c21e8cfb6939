#include "strategy/server/server_shard.h"

#include <algorithm>
#include <utility>

#include "strategy/common/entries.h"
#include "strategy/common/phase_time.h"
#include "transport/name_sender.h"

namespace thinwire::strategy {

message::ShardAddress ShardRound::of(message::ShardKind kind) const {
  message::ShardAddress out = address;
  out.kind = kind;
  return out;
}

std::size_t ShardRound::max_pushed() const { return std::min(picked, address.numel); }

std::size_t ShardRound::max_aggregated(int ranks) const {
  const auto workers = static_cast<std::size_t>(ranks - first_worker);
  // A server that withholds may send what was pushed in any step before.
  return kept < address.numel ? kept : std::min(address.numel, workers * picked);
}

void ServerShard::serve(const ShardRound& round, const Sparse* own, const RunOptions& run) {
  const Layout none;
  const LogSink silent;
  const StrategyContext context{*in_, none, run, stats_, silent};
  add_pushes(context, round, own);
  timed_codec(context, [&] {
    fold_in(round);
    message_.clear();
    form_ = codec_.encode(sent_, round.of(message::ShardKind::aggregate), round.known, message_);
  });
  send_aggregate();
}

// Pushes may arrive in any order. They are added in rank order, so that the sum is the same in
// every run.
void ServerShard::add_pushes(const StrategyContext& context, const ShardRound& round,
                             const Sparse* own) {
  const std::size_t longest =
      message::shard_max_bytes(round.of(message::ShardKind::push), round.max_pushed());
  incoming_.resize(static_cast<std::size_t>(in_->size()));
  pending_.clear();
  for (int rank = round.first_worker; rank < in_->size(); ++rank) {
    if (rank == in_->rank()) continue;
    Payload& bytes = incoming_[static_cast<std::size_t>(rank)];
    bytes.resize(longest);
    pending_.push_back(in_->post_recv(rank, kPushTag, bytes, Fit::at_most));
  }
  sum_.begin(sums_);
  auto next = pending_.begin();
  for (int rank = round.first_worker; rank < in_->size(); ++rank) {
    const bool is_own = rank == in_->rank();
    const std::size_t bytes = is_own ? 0 : in_->wait(*next++).bytes;
    timed_codec(context, [&] {
      if (!is_own) decode_push(rank, bytes, round);
      sum_.add(is_own ? *own : pushed_);
    });
  }
}

void ServerShard::decode_push(int from, std::size_t bytes, const ShardRound& round) {
  const Bytes push = Bytes(incoming_[static_cast<std::size_t>(from)]).first(bytes);
  transport::name_sender(*in_, from, [&] {
    codec_.decode(push, round.of(message::ShardKind::push), round.max_pushed(), round.known,
                  pushed_);
  });
}

// Chooses the entries of the aggregate: the sums of all elements that were pushed, or the largest
// entries of the shard; a sum includes the residual. Entries that are not sent and the rounding
// errors of those that are become the new residual.
void ServerShard::fold_in(const ShardRound& round) {
  touched_.clear();
  taken_.clear();
  sum_.finish([&](std::size_t i, float& sum) {
    const auto index = static_cast<std::uint32_t>(i);
    touched_.push_back(index, residual_[i]);
    residual_[i] += std::exchange(sum, 0.0f);
    if (round.kept >= round.address.numel) {
      taken_.push_back(index, std::exchange(residual_[i], 0.0f));
    }
  });
  if (round.kept < round.address.numel) {
    top_k_.select({.gradient = sums_, .residual = residual_, .velocity = {}, .params = {}},
                  round.kept, taken_);
  }
  sent_ = taken_;
  errors_.resize(sent_.size());
  message::round_to_wire(round.address.values, sent_.values, errors_);
  for (std::size_t j = 0; j < sent_.size(); ++j) residual_[sent_.indices[j]] = errors_[j];
  drop_zeros(sent_);  // sums that cancelled, or there was nothing else to take
}

void ServerShard::send_aggregate() {
  pending_.clear();
  for (int rank = 0; rank < out_->size(); ++rank) {
    if (rank != out_->rank()) pending_.push_back(out_->post_send(rank, kAggregateTag, message_));
  }
  for (const Pending& each : pending_) out_->wait(each);
}

void ServerShard::commit() noexcept {
  touched_.clear();
  taken_.clear();
}

void ServerShard::roll_back() noexcept {
  for (std::size_t j = 0; j < taken_.size(); ++j) residual_[taken_.indices[j]] = taken_.values[j];
  for (std::size_t j = 0; j < touched_.size(); ++j) {
    residual_[touched_.indices[j]] = touched_.values[j];
  }
  std::ranges::fill(sums_, 0.0f);  // A push that could not be read leaves the sum of earlier ones.
  commit();
}

}  // namespace thinwire::strategy
