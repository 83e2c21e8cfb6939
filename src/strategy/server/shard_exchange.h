// One step between all workers and all shards: each worker pushes to each shard its part of the
// picks, and gets back one aggregate from each. The servers run on the first ranks, as tasks beside
// the workers.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "strategy/common/background_worker.h"
#include "strategy/server/server_shard.h"
#include "strategy/server/union_memory.h"

namespace thinwire::strategy {

class ShardExchange {
 public:
  // What all ranks agree on for a step.
  struct Plan {
    std::uint64_t step = 0;
    std::size_t picked = 0;       // by each worker, at most
    std::size_t kept = SIZE_MAX;  // by all servers together; SIZE_MAX: everything
    int first_worker = 0;
    message::ValueCoding values = message::ValueCoding::bf16;
  };

  // By all ranks, once: the first ranks serve, one shard of the memory each. WireError if what was
  // loaded does not fit.
  void open(Transport& wire, const UnionMemory& memory);

  // Pushes the picks and receives the aggregates. If it throws, the servers' residuals are as
  // before.
  void run(StepContext& context, const Plan& plan, const UnionMemory& memory, const Sparse& picks);
  // The step is made: what servers withhold counts.
  void commit() noexcept {
    if (server_) server_->commit();
  }

  std::span<const Sparse> aggregates() const noexcept { return aggregates_; }
  // What this rank pushed: by shard, its own, if it has one, included; and the messages.
  std::span<const Sparse> pushes() const noexcept { return pushes_; }
  std::span<const Payload> push_messages() const noexcept { return outgoing_; }

  // What the server of this rank withholds; empty if it has none.
  Floats server_residual() const noexcept {
    return server_ ? server_->residual() : Floats(loaded_residual_);
  }
  void load(std::vector<float> server_residual) { loaded_residual_ = std::move(server_residual); }

  // Of this rank so far, on the wire.
  struct Tally {
    double bytes_up = 0, bytes_down = 0;
    std::array<double, message::kShardForms> forms{};  // messages of each
  };
  const Tally& tally() const noexcept { return tally_; }
  Seconds server_busy() const noexcept { return server_ ? server_->busy() : Seconds(0); }

 private:
  void agree(const Plan& plan, const UnionMemory& memory);
  void encode_pushes(const Sparse& picks);
  void serve();
  void talk(Transport& wire);
  void decode_aggregates(const Transport& wire);
  bool contributes() const noexcept { return up_->rank() >= rounds_[0].first_worker; }

  std::vector<float> loaded_residual_;
  message::ShardCodec codec_;
  std::vector<ShardRound> rounds_;  // by shard, as all below
  std::vector<Sparse> pushes_, aggregates_;
  std::vector<Payload> outgoing_, incoming_;
  std::vector<std::size_t> lengths_;  // of what came in
  std::vector<Pending> receives_, sends_;
  Tally tally_;
  std::unique_ptr<Transport> up_, down_;  // messages on their way use the memory above
  RunOptions run_;
  std::unique_ptr<ServerShard> server_;
  std::unique_ptr<BackgroundWorker> serving_;  // last: it uses all above
};

}  // namespace thinwire::strategy
