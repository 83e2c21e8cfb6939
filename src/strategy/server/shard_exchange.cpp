#include "strategy/server/shard_exchange.h"

#include <algorithm>
#include <cmath>

#include "strategy/common/phase_time.h"
#include "strategy/common/state.h"
#include "transport/name_sender.h"
#include "transport/payload_scale.h"

namespace thinwire::strategy {
namespace {

// Calls visit(shard, from, to) for each shard, whose indices are indices[from, to). The indices
// strictly increase.
template <class Visit>
void split(std::span<const std::uint32_t> indices, std::span<const ShardRound> rounds,
           Visit visit) {
  std::size_t from = 0, end = 0;
  for (std::size_t shard = 0; shard < rounds.size(); ++shard) {
    end += rounds[shard].address.numel;
    const auto to = static_cast<std::size_t>(
        std::ranges::lower_bound(indices.begin() + static_cast<std::ptrdiff_t>(from), indices.end(),
                                 end) -
        indices.begin());
    visit(shard, from, to);
    from = to;
  }
}

}  // namespace

// Pushes and aggregates have a lane each. The server only receives on the first one and the worker
// on the same rank only on the second one, so neither takes a message that is meant for the other.
void ShardExchange::open(Transport& wire, const UnionMemory& memory) {
  up_ = wire.lane();
  down_ = wire.lane();
  const std::size_t shards = memory.shards();
  for (auto* buffers : {&outgoing_, &incoming_}) buffers->resize(shards);
  for (auto* contents : {&pushes_, &aggregates_}) contents->resize(shards);
  lengths_.resize(shards);
  const auto rank = static_cast<std::size_t>(wire.rank());
  const bool serves = rank < shards;
  prepare(loaded_residual_, serves ? memory.range(rank).size() : 0, "server's residual");
  if (serves) {
    server_ = std::make_unique<ServerShard>(up_->clone_handle(), down_->clone_handle(),
                                            std::move(loaded_residual_));
    server_worker_ = std::make_unique<transport::BackgroundWorker>(wire.runtime());
  }
}

void ShardExchange::run(const GradientStep& context, const StepOptions& options,
                        const UnionMemory& memory, const Sparse& picks) {
  set_rounds(options, memory);
  if (contributes()) timed_codec(context, [&] { encode_pushes(picks); });
  for (Transport* lane : {up_.get(), down_.get()}) lane->set_timeout(context.wire.timeout());
  if (server_) server_->set_timeout(context.wire.timeout());
  run_ = context.run;
  try {
    transport::BackgroundWorker::Ticket served = 0;
    if (server_) served = server_worker_->post([this] { serve(); });
    exchange_messages(context.wire);
    if (server_) server_worker_->wait(served);
    timed_codec(context, [&] { decode_aggregates(context.wire); });
  } catch (...) {
    if (server_) {
      server_worker_->drain();  // The job ends by itself: all workers push before they wait.
      server_->roll_back();
    }
    throw;
  }
}

void ShardExchange::serve() {
  const auto own = static_cast<std::size_t>(up_->rank());
  server_->serve(rounds_[own], contributes() ? &pushes_[own] : nullptr, run_);
}

void ShardExchange::set_rounds(const StepOptions& options, const UnionMemory& memory) {
  rounds_.clear();
  const std::size_t numel = memory.range(memory.shards() - 1).end;
  for (std::size_t shard = 0; shard < memory.shards(); ++shard) {
    ShardRound round;
    const std::size_t size = memory.range(shard).size();
    round.address = {message::ShardKind::push, static_cast<std::uint32_t>(shard), size,
                     options.step, options.values};
    round.picked = options.picked;
    // The shard's share, rounded up.
    round.kept = options.kept >= numel ? size : (options.kept * size + numel - 1) / numel;
    round.first_worker = options.first_worker;
    round.known = memory.mask(shard);
    rounds_.push_back(round);
  }
}

void ShardExchange::encode_pushes(const Sparse& picks) {
  std::size_t begin = 0;  // of the shard
  split(picks.indices, rounds_, [&](std::size_t shard, std::size_t from, std::size_t to) {
    Sparse& entries = pushes_[shard];
    entries.clear();
    entries.reserve(std::min(rounds_[shard].picked, rounds_[shard].address.numel));
    for (std::size_t j = from; j < to; ++j) {
      entries.push_back(static_cast<std::uint32_t>(picks.indices[j] - begin), picks.values[j]);
    }
    begin += rounds_[shard].address.numel;
  });
  for (std::size_t shard = 0; shard < rounds_.size(); ++shard) {
    if (static_cast<int>(shard) == up_->rank()) continue;
    const ShardRound& round = rounds_[shard];
    outgoing_[shard].clear();
    outgoing_[shard].reserve(
        message::shard_max_bytes(round.of(message::ShardKind::push), round.max_pushed()));
    const message::ShardForm form = codec_.encode(
        pushes_[shard], round.of(message::ShardKind::push), round.known, outgoing_[shard]);
    ++tally_.forms[static_cast<std::size_t>(form)];
  }
}

// Posts all sends and receives before it waits for any of them, so that no rank waits for this one.
void ShardExchange::exchange_messages(Transport& wire) {
  receives_.clear();
  sends_.clear();
  for (int server = 0; server < static_cast<int>(rounds_.size()); ++server) {
    if (server == wire.rank()) continue;
    const auto shard = static_cast<std::size_t>(server);
    const ShardRound& round = rounds_[shard];
    incoming_[shard].resize(message::shard_max_bytes(round.of(message::ShardKind::aggregate),
                                                     round.max_aggregated(wire.size())));
    receives_.push_back(down_->post_recv(server, kAggregateTag, incoming_[shard], Fit::at_most));
    if (!contributes()) continue;
    sends_.push_back(up_->post_send(server, kPushTag, outgoing_[shard]));
    tally_.bytes_up +=
        static_cast<double>(transport::represented_bytes(wire, outgoing_[shard].size()));
  }
  for (const Pending& each : sends_) up_->wait(each);
  for (const Pending& each : receives_) {
    lengths_[static_cast<std::size_t>(each.peer)] = down_->wait(each).bytes;
  }
}

void ShardExchange::decode_aggregates(const Transport& wire) {
  for (std::size_t shard = 0; shard < rounds_.size(); ++shard) {
    const bool own = static_cast<int>(shard) == wire.rank();
    const Bytes message =
        own ? server_->aggregate() : Bytes(incoming_[shard]).first(lengths_[shard]);
    const ShardRound& round = rounds_[shard];
    aggregates_[shard].reserve(round.max_aggregated(wire.size()));
    transport::name_sender(wire, static_cast<int>(shard), [&] {
      codec_.decode(message, round.of(message::ShardKind::aggregate),
                    round.max_aggregated(wire.size()), round.known, aggregates_[shard]);
    });
    if (!own) continue;
    ++tally_.forms[static_cast<std::size_t>(server_->form())];
    tally_.bytes_down +=
        static_cast<double>(transport::represented_bytes(wire, message.size())) * (wire.size() - 1);
  }
}

}  // namespace thinwire::strategy
