// Exchanges the buckets of a gradient in the order in which they are submitted.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "thinwire/session.h"

namespace thinwire {

// One gradient strategy per bucket. The Session's training thread makes all calls.
class Session::Exchanges {
 public:
  // The context and the strategies, one per bucket, outlive it.
  Exchanges(const StrategyContext& context, const std::vector<Bucket>& buckets,
            const std::vector<std::unique_ptr<Strategy>>& strategies);

  // Begins all strategies; all ranks together.
  void begin();

  void submit(std::size_t bucket, const ModelView& model, std::uint64_t step);
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
    Update update;
    std::exception_ptr failure;
  };

  StrategyContext context_of(Part& part) const;
  void exchange(Part& part, const ModelView& model, std::uint64_t step);
  Update join_updates();

  StrategyContext context_;
  std::vector<std::unique_ptr<Part>> parts_;  // at stable addresses
  std::vector<std::uint32_t> indices_;        // of the update of the whole model
};

}  // namespace thinwire
