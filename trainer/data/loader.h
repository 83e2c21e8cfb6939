// Deals the examples of each epoch out to the workers and reads ahead, so that the training step
// never waits for data.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/data/dataset.h"

namespace thinwire::trainer {

struct Batch {
  std::size_t examples = 0;         // of this worker; 0 if a last, small batch left none for it
  std::size_t global_examples = 0;  // of all workers together
  std::uint64_t epoch = 0;
  std::vector<float> pixels;
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;
};

struct LoaderOptions {
  int rank = 0;
  int workers = 1;
  std::size_t batch = 32;  // examples per worker and step
  std::uint64_t seed = 1;
  std::uint64_t step = 0;  // the first to be read; position is a function of the step alone
  bool augment = true;
  bool serves = false;  // takes no part of the batches: its own are empty
  // Batches that a thread of its own reads in advance. 0: no thread, next() reads by itself; for
  // simulated workers, of which there are many, and whose compute is timed.
  std::size_t ahead = 2;
  Seconds patience{120};  // how long next() waits for that thread
};

// An epoch is one random order of all examples, the same on every worker, cut into global batches
// of batch x workers examples; worker r takes the r-th part of each. So P workers with batch B see
// the same examples in each step as one worker with batch P x B. The last global batch of an epoch
// may be smaller and is dealt out evenly.
class Loader {
 public:
  // `data` must outlive the loader. ConfigError if the options make no sense.
  Loader(const Dataset& data, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  std::uint64_t steps_per_epoch() const noexcept;
  // The batch of the next step. Valid until the next call. Throws what the data set threw, once all
  // batches before that are delivered, and then for ever; Error if the reader is stuck.
  const Batch& next();

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

// Examples [begin, end) of the order of an epoch that `rank` trains on in `step` of that epoch.
struct BatchRange {
  std::size_t begin = 0, end = 0;
  std::size_t global_examples = 0;
};
BatchRange batch_range(std::size_t examples, const LoaderOptions& options,
                       std::uint64_t step_of_epoch);

// The order of one epoch: a permutation of 0 ... order.size()-1 that is a function of that size and
// of (seed, epoch) alone.
void shuffle_epoch(std::uint64_t seed, std::uint64_t epoch, std::vector<std::uint32_t>& order);

}  // namespace thinwire::trainer
