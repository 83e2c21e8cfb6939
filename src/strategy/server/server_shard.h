// The server of one shard: it adds the pushes of the workers in rank order, and sends the same
// aggregate to all of them.
#pragma once

#include <memory>

#include "kernel/topk.h"
#include "message/shard_message.h"
#include "strategy/common/scattered_sum.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

inline constexpr Tag kPushTag{8};
inline constexpr Tag kAggregateTag{9};

// The parameters of a step that a server needs. They are the same on every rank.
struct ShardRound {
  message::ShardAddress address;
  std::size_t picked = 0;  // entries that a worker pushes at most, to all shards together
  std::size_t kept = 0;    // entries of the aggregate at most; the shard's length: all
  int first_worker = 0;
  std::span<const std::uint32_t> known;  // by workers and server; outlives the step

  // Returns the address of a push or of the aggregate of this step.
  message::ShardAddress of(message::ShardKind kind) const;
  // Return how many entries a push and an aggregate have at most.
  std::size_t max_pushed() const;
  std::size_t max_aggregated(int ranks) const;
};

// Values that the server withholds, because only the largest entries are sent or because values are
// rounded, stay in its residual and are part of later sums. Only commit() makes a change of the
// residual permanent, so that a step that fails half-way loses nothing.
//
// serve() is called by the task that serves; all other methods by the training thread while serve()
// is not running.
class ServerShard {
 public:
  // Receives pushes through `in` and sends aggregates through `out`, two handles that no other
  // object uses. The residual is as long as the shard.
  ServerShard(std::unique_ptr<Transport> in, std::unique_ptr<Transport> out,
              std::vector<float> residual)
      : residual_(std::move(residual)),
        sums_(residual_.size(), 0.0f),
        in_(std::move(in)),
        out_(std::move(out)) {}

  // Serves one step. `own` is the push of the worker of this rank, or null if there is none.
  // Returns when all workers have received the aggregate.
  void serve(const ShardRound& round, const Sparse* own, const RunOptions& run);
  // Returns the message with the aggregate, for the worker of this rank.
  Bytes aggregate() const noexcept { return message_; }
  message::ShardForm form() const noexcept { return form_; }

  // Keeps the residual that the last serve() left.
  void commit() noexcept;
  // Restores the residual of the last commit(), also after a serve() that threw.
  void roll_back() noexcept;

  // Sets the deadline of both handles.
  void set_timeout(Seconds timeout) {
    in_->set_timeout(timeout);
    out_->set_timeout(timeout);
  }
  Floats residual() const noexcept { return residual_; }
  // Returns how long this server has decoded, added and encoded so far.
  Seconds busy() const noexcept { return stats_.codec; }

 private:
  void add_pushes(const StrategyContext& context, const ShardRound& round, const Sparse* own);
  void decode_push(int from, std::size_t bytes, const ShardRound& round);
  void fold_in(const ShardRound& round);
  void send_aggregate();

  message::ShardCodec codec_;
  std::vector<Payload> incoming_;  // by rank
  std::vector<Pending> pending_;
  std::vector<float> residual_, sums_, errors_;
  ScatteredSum sum_;
  kernel::TopK top_k_;
  Sparse pushed_, sent_;
  Sparse touched_;  // elements that were pushed, with their residuals before
  Sparse taken_;    // what was sent, before it was rounded
  Payload message_;
  message::ShardForm form_ = message::ShardForm::rice;
  Stats stats_;
  std::unique_ptr<Transport> in_, out_;  // last: their messages use the memory above
};

}  // namespace thinwire::strategy
