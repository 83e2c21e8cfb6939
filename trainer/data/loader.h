// Distributes the examples of each epoch over the workers and reads ahead, so that a training step
// does not wait for data.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/data/dataset.h"

namespace thinwire::trainer {

struct Batch {
  std::size_t examples = 0;  // of this worker; 0 if the last batch is too small for all workers
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
  std::uint64_t step = 0;  // the first step to be read; the position depends only on the step
  bool augment = true;
  bool serves = false;  // this rank only serves: its batches are empty
  // How many batches a background thread reads in advance. 0: there is no thread, and next() reads
  // itself. Simulated workers use 0, because there are many of them, and because their computing is
  // timed.
  std::size_t ahead = 2;
  Seconds patience{120};  // how long next() waits for the background thread
};

// An epoch is a random order of all examples, the same on every worker, divided into global batches
// of batch x workers examples; worker r uses the r-th part of each. So P workers with batch B use
// the same examples in each step as one worker with batch P x B. The last global batch of an epoch
// may be smaller and is distributed evenly.
class Loader {
 public:
  // `data` must outlive the loader. Throws ConfigError if the options are not valid.
  Loader(const Dataset& data, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  std::uint64_t steps_per_epoch() const noexcept;
  // Returns the batch of the next step, which is valid until the next call. If the data set throws,
  // next() first returns all batches before the error and then throws it in every call. Throws
  // Error if the reader is stuck.
  const Batch& next();

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

// The range [begin, end) in the order of an epoch that a rank uses in one step of that epoch.
struct BatchRange {
  std::size_t begin = 0, end = 0;
  std::size_t global_examples = 0;
};
BatchRange batch_range(std::size_t examples, const LoaderOptions& options,
                       std::uint64_t step_of_epoch);

// Fills `order` with the order of one epoch: a permutation of 0 ... order.size()-1 that depends
// only on that size, the seed and the epoch.
void shuffle_epoch(std::uint64_t seed, std::uint64_t epoch, std::vector<std::uint32_t>& order);

}  // namespace thinwire::trainer
