// The server of one shard: it adds up what the workers push, in rank order, and sends all of them
// the same aggregate.
#pragma once

#include <memory>

#include "kernel/topk.h"
#include "message/shard_message.h"
#include "strategy/common/scattered_sum.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

inline constexpr Tag kPushTag{8};
inline constexpr Tag kAggregateTag{9};

// What a server has to know about a step. It is the same on every rank.
struct ShardRound {
  message::ShardAddress address;
  std::size_t picked = 0;    // entries that a worker pushes at most, to all shards together
  std::size_t kept = 0;      // entries of the aggregate at most; as many as the shard has: all
  std::size_t proposed = 0;  // indices that the proposer adds to its push at most
  int proposer = kAnyRank;
  int first_worker = 0;                  // ranks below it only serve
  std::span<const std::uint32_t> known;  // indices that all ranks know; outlive the step

  // Returns the address of a push or of the aggregate of this step.
  message::ShardAddress of(message::ShardKind kind) const;
  // Return the most that a push, or the aggregate for a group of `ranks` ranks, can contain.
  message::ShardLimits push_limits() const;
  message::ShardLimits aggregate_limits(int ranks) const;
};

// Values that the server withholds, because only the largest entries are sent or because values are
// rounded, stay in its residual and are part of later sums. Only commit() makes a change of the
// residual permanent, so that a step that fails half-way loses nothing.
//
// serve() is called by the task that serves; all other methods by the training thread while serve()
// is not running.
class ServerShard {
 public:
  // Receives pushes through `in` and sends aggregates through `out`, two handles that nobody else
  // uses. The residual is as long as the shard.
  ServerShard(std::unique_ptr<Transport> in, std::unique_ptr<Transport> out,
              std::vector<float> residual)
      : residual_(std::move(residual)),
        sums_(residual_.size(), 0.0f),
        in_(std::move(in)),
        out_(std::move(out)) {}

  // Serves one step. `own` is the push of the worker on this rank, or null if there is none.
  // Returns when all workers have the aggregate. Throws WireError for a push that cannot be read.
  void serve(const ShardRound& round, const message::ShardContents* own, const RunOptions& run);
  // Returns the message of the last serve(), for the worker of this rank, and its form.
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
  void add_pushes(const StrategyContext& context, const ShardRound& round, const message::ShardContents* own);
  void decode_push(int from, std::size_t bytes, const ShardRound& round);
  void fold_in(const ShardRound& round);
  void send_aggregate();

  message::ShardCodec codec_;
  std::vector<Payload> incoming_;  // by rank
  std::vector<Pending> pending_;
  std::vector<float> residual_, sums_, errors_;
  ScatteredSum sum_;
  kernel::TopK top_k_;
  message::ShardContents pushed_, sent_;
  Sparse touched_;  // elements that were pushed, with their residuals before the step
  Sparse taken_;    // the entries that were sent, with their values before rounding
  Payload message_;
  message::ShardForm form_ = message::ShardForm::rice;
  Stats stats_;
  std::unique_ptr<Transport> in_, out_;  // last: their messages use the memory above
};

}  // namespace thinwire::strategy
