// Exchanges the buckets of a gradient in the order in which they are submitted: in the background
// if there are several, so that backward goes on meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "session/bucket_shares.h"
#include "thinwire/session.h"
#include "transport/background_worker.h"

namespace thinwire {

// One gradient strategy per bucket. The Session's training thread makes all calls.
class Session::Exchanges {
 public:
  // The context and the strategies, one per bucket, outlive it.
  Exchanges(const StrategyContext& context, const std::vector<Bucket>& buckets,
            const std::vector<std::unique_ptr<Strategy>>& strategies, Selection selection);

  // Begins all strategies; all ranks together.
  void begin();

  void submit(std::size_t bucket, const ModelView& model, std::uint64_t step);
  // Returns after the exchange of the bucket, and throws what it threw.
  void wait(std::size_t bucket);
  // Waits for all buckets, adds what they spent to `stats` and returns the update of the whole
  // model, or throws what the first exchange that failed has thrown. If a bucket was skipped or
  // failed, the updates of all others are given back to their strategies. Throws std::logic_error
  // if a bucket was not submitted.
  Update wait_all(Stats& stats);

  // The shares of the buckets with Selection::carry, for a checkpoint; otherwise none.
  std::vector<double> shares() const { return shares_ ? shares_->all() : std::vector<double>(); }
  void set_shares(std::vector<double> shares);

 private:
  // A bucket with its strategy, and what its last exchange came to.
  struct Part {
    Part(const Bucket& range, Strategy& exchanged_by, const RunOptions& run_options)
        : bucket(range),
          strategy(dynamic_cast<GradientStrategy&>(exchanged_by)),
          run(run_options) {}

    const Bucket bucket;
    GradientStrategy& strategy;
    const RunOptions run;
    LogSink log;  // names the bucket if there are several
    Stats stats;
    bool submitted = false;
    bool exchanged = false;  // without an exception
    // The exchange that was submitted:
    Floats params;
    MutFloats grads;
    std::uint64_t step = 0;
    double density_share = 1;
    Seconds timeout{0};
    Update update;
    transport::BackgroundWorker::Ticket ticket = 0;
  };

  StrategyContext context_of(Part& part) const;
  GradientStep step_of(Part& part) const;
  void exchange(Part& part);
  void return_updates();
  Update join_updates();

  StrategyContext context_;
  // With several buckets, the stream and the task of their exchanges: the session's own transport
  // stays with the training thread.
  std::unique_ptr<Transport> lane_;
  std::vector<std::unique_ptr<Part>> parts_;             // at stable addresses
  std::vector<std::uint32_t> indices_;                   // of the update of the whole model
  std::optional<session::BucketShares> shares_;          // with Selection::carry
  std::unique_ptr<transport::BackgroundWorker> worker_;  // last: its jobs use the members above
};

}  // namespace thinwire
