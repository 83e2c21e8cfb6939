// Exchanges the buckets of a gradient in the order in which they are submitted: in the background
// if there are several, so that backward goes on meanwhile.
#pragma once

#include <memory>
#include <vector>

#include "thinwire/session.h"
#include "transport/background_worker.h"

namespace thinwire {

// One gradient strategy per bucket. The Session's training thread makes all calls.
class Session::Exchanges {
 public:
  // The context and the strategies, one per bucket, outlive it.
  Exchanges(const StrategyContext& context, const std::vector<Bucket>& buckets,
            const std::vector<std::unique_ptr<Strategy>>& strategies);

  // Begins all strategies; all ranks together.
  void begin();

  // own_time is that of the training thread since the last step's exchange.
  void submit(std::size_t bucket, const ModelView& model, std::uint64_t step, Seconds own_time);
  // Returns after the exchange of the bucket, and throws what it threw.
  void wait(std::size_t bucket);
  // Waits for all buckets, adds what they spent to `stats` and returns the update of the whole
  // model. Throws std::logic_error if a bucket was not submitted.
  Update wait_all(Stats& stats);

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
    Stats stats;
    bool submitted = false;
    // The exchange that was submitted:
    Floats params;
    MutFloats grads;
    std::uint64_t step = 0;
    Seconds timeout{0}, own_time{0};
    Update update;
    transport::BackgroundWorker::Ticket ticket = 0;
  };

  StrategyContext context_of(Part& part) const;
  void exchange(Part& part);
  Update join_updates();

  StrategyContext context_;
  // With several buckets, the stream and the task of their exchanges: the session's own transport
  // stays with the training thread.
  std::unique_ptr<Transport> lane_;
  std::vector<std::unique_ptr<Part>> parts_;             // at stable addresses
  std::vector<std::uint32_t> indices_;                   // of the update of the whole model
  std::unique_ptr<transport::BackgroundWorker> worker_;  // last: its jobs use the members above
};

}  // namespace thinwire
