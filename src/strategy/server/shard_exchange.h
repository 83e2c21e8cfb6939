// One step between all workers and all shards: each worker pushes to each shard its part of the
// picks, and gets back one aggregate from each. The servers run on the first ranks, as background
// tasks next to the workers.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "strategy/server/server_shard.h"
#include "strategy/server/union_memory.h"
#include "transport/background_worker.h"

namespace thinwire::strategy {

// All methods are for the training thread.
class ShardExchange {
 public:
  // The values on which all ranks agree for a step.
  struct StepOptions {
    std::uint64_t step = 0;
    std::size_t picked = 0;       // by each worker, at most
    std::size_t kept = SIZE_MAX;  // by all servers together; SIZE_MAX: everything
    int first_worker = 0;
    message::ValueCoding values = message::ValueCoding::bf16;
  };

  // All ranks call it, once. The first ranks become servers of one shard of the memory each. Throws
  // WireError if the residual that was loaded does not fit.
  void open(Transport& wire, const UnionMemory& memory);

  // Pushes the picks and receives the aggregates. If it throws, the servers' residuals are as
  // before.
  void run(const GradientStep& context, const StepOptions& options, const UnionMemory& memory,
           const Sparse& picks);
  // Makes the new residual of the server on this rank permanent, after a step that succeeded.
  void commit() noexcept {
    if (server_) server_->commit();
  }

  // The step is not made: the servers' residuals become what they were before it.
  void roll_back() noexcept {
    if (server_) server_->roll_back();
  }

  std::span<const Sparse> aggregates() const noexcept { return aggregates_; }
  // Return the entries that this rank pushed to each shard, including its own, and the messages.
  std::span<const Sparse> pushes() const noexcept { return pushes_; }
  std::span<const Payload> push_messages() const noexcept { return outgoing_; }

  // Returns the residual of the server on this rank; it is empty if the rank has no server.
  Floats server_residual() const noexcept {
    return server_ ? server_->residual() : Floats(loaded_residual_);
  }
  // Sets the residual with which open() starts the server.
  void load(std::vector<float> server_residual) { loaded_residual_ = std::move(server_residual); }

  // Counts what this rank has sent so far.
  struct Tally {
    double bytes_up = 0, bytes_down = 0;
    std::array<double, message::kShardForms> forms{};  // messages of each form
  };
  const Tally& tally() const noexcept { return tally_; }
  // Returns how long the server of this rank has computed so far.
  Seconds server_busy() const noexcept { return server_ ? server_->busy() : Seconds(0); }

 private:
  void set_rounds(const StepOptions& options, const UnionMemory& memory);
  void encode_pushes(const Sparse& picks);
  void serve();
  void exchange_messages(Transport& wire);
  void decode_aggregates(const Transport& wire);
  bool contributes() const noexcept { return up_->rank() >= rounds_[0].first_worker; }

  std::vector<float> loaded_residual_;
  message::ShardCodec codec_;
  std::vector<ShardRound> rounds_;  // by shard, as all below
  std::vector<Sparse> pushes_, aggregates_;
  std::vector<Payload> outgoing_, incoming_;
  std::vector<std::size_t> lengths_;  // of the messages in incoming_
  std::vector<Pending> receives_, sends_;
  Tally tally_;
  std::unique_ptr<Transport> up_, down_;  // their messages use the memory above
  RunOptions run_;
  std::unique_ptr<ServerShard> server_;
  // Executes serve(). Last, because its job uses the members above.
  std::unique_ptr<transport::BackgroundWorker> server_worker_;
};

}  // namespace thinwire::strategy
