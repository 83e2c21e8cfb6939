#include "trainer/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/random.h"
#include "thinwire/error.h"

namespace thinwire::trainer {
namespace {

// Returns the number of examples of all workers in one step, at most all examples.
std::size_t global_batch(std::size_t examples, const LoaderOptions& options) {
  if (options.batch >= examples) return examples;
  return std::min(examples, options.batch * static_cast<std::size_t>(options.workers));
}

void check(const Dataset& data, const LoaderOptions& options) {
  if (options.workers < 1 || options.rank < 0 || options.rank >= options.workers) {
    throw ConfigError(
        fmt::format("loader: rank out of range ({}; {} workers)", options.rank, options.workers));
  }
  if (options.batch < 1)
    throw ConfigError("loader: the batch is empty; at least 1 example per worker is needed");
  if (data.size() < 1 || data.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError(fmt::format(
        "loader: wrong number of examples ({}); 1 to 4294967295 are possible", data.size()));
  }
}

}  // namespace

BatchRange batch_range(std::size_t examples, const LoaderOptions& options,
                       std::uint64_t step_of_epoch) {
  const std::size_t stride = global_batch(examples, options);
  if (stride == 0 || step_of_epoch > (examples - 1) / stride) return {examples, examples, 0};
  const std::size_t begin = static_cast<std::size_t>(step_of_epoch) * stride;
  const std::size_t count = std::min(stride, examples - begin);
  if (options.serves) return {begin, begin, count};
  const auto rank = static_cast<std::size_t>(options.rank);
  const auto workers = static_cast<std::size_t>(options.workers);
  return {begin + count * rank / workers, begin + count * (rank + 1) / workers, count};
}

void shuffle_epoch(std::uint64_t seed, std::uint64_t epoch, std::vector<std::uint32_t>& order) {
  std::iota(order.begin(), order.end(), 0u);
  // This is the Fisher-Yates shuffle, from the end. 32 random bits are scaled to the range: with n
  // examples, the bias towards any order is at most n / 2^32.
  std::array<std::uint32_t, 4> bits{};
  for (std::size_t i = order.size(); i > 1; --i) {
    const std::size_t draw = order.size() - i;
    if (draw % bits.size() == 0)
      bits = base::philox(seed, epoch, draw / bits.size(), base::Purpose::shuffle);
    const std::uint64_t pick = (std::uint64_t{bits[draw % bits.size()]} * i) >> 32;
    std::swap(order[i - 1], order[static_cast<std::size_t>(pick)]);
  }
}

// A ring of batches. The reading thread fills them in order, and next() returns them; the batch
// that was returned last is not touched.
class Loader::Reader {
 public:
  Reader(const Dataset& data, const LoaderOptions& options)
      : data_(data),
        shape_(data.shape()),
        options_(options),
        steps_per_epoch_(steps(data.size(), options)),
        order_(data.size()),
        order_epoch_(options.step / steps_per_epoch_),
        ring_(options.ahead + 1) {
    shuffle_epoch(options_.seed, order_epoch_, order_);
    for (Batch& batch : ring_) reserve(batch);
    if (options_.ahead > 0) {
      thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
  }

  std::uint64_t steps_per_epoch() const noexcept { return steps_per_epoch_; }

  const Batch& next() {
    if (options_.ahead == 0) {
      fill(ring_[0], options_.step + taken_);
      ++taken_;
      return ring_[0];
    }
    std::unique_lock lock(mutex_);
    returned_ = taken_;
    changed_.notify_all();
    const bool moved = changed_.wait_for(lock, options_.patience,
                                         [&] { return filled_ > taken_ || failure_ != nullptr; });
    if (!moved) {
      throw Error(
          fmt::format("loader: no batch was read within {} s (the reader is stuck in step {})",
                      options_.patience.count(), options_.step + taken_));
    }
    if (filled_ == taken_) std::rethrow_exception(failure_);
    return ring_[taken_++ % ring_.size()];
  }

 private:
  static std::uint64_t steps(std::size_t examples, const LoaderOptions& options) {
    const std::size_t stride = global_batch(examples, options);
    return (examples + stride - 1) / stride;
  }

  // Allocates memory for the first batch of an epoch, which is the largest of a worker.
  void reserve(Batch& batch) const {
    const BatchRange first = batch_range(data_.size(), options_, 0);
    const std::size_t workers = static_cast<std::size_t>(options_.workers);
    resize(batch, (first.global_examples + workers - 1) / workers);
  }

  void resize(Batch& batch, std::size_t examples) const {
    batch.examples = examples;
    batch.pixels.resize(examples * shape_.floats());
    batch.tokens.resize(examples * shape_.tokens());
    batch.labels.resize(examples * shape_.labels());
  }

  void run(const std::stop_token& stop) {
    try {
      while (true) {
        std::unique_lock lock(mutex_);
        const auto room = [&] { return filled_ - returned_ < ring_.size(); };
        if (!changed_.wait(lock, stop, room) || stop.stop_requested()) return;
        Batch& batch = ring_[filled_ % ring_.size()];
        const std::uint64_t step = options_.step + filled_;
        lock.unlock();
        fill(batch, step);
        lock.lock();
        ++filled_;
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  void fill(Batch& batch, std::uint64_t step) {
    const std::uint64_t epoch = step / steps_per_epoch_;
    if (epoch != order_epoch_) {
      shuffle_epoch(options_.seed, epoch, order_);
      order_epoch_ = epoch;
    }
    const BatchRange range = batch_range(order_.size(), options_, step % steps_per_epoch_);
    resize(batch, range.end - range.begin);
    batch.global_examples = range.global_examples;
    batch.epoch = epoch;
    const Augmentation augmentation{options_.seed, epoch};
    for (std::size_t i = 0; i < batch.examples; ++i) {
      const ExampleSlot slot{part(batch.pixels, i, shape_.floats()),
                             part(batch.tokens, i, shape_.tokens()),
                             part(batch.labels, i, shape_.labels())};
      data_.read(order_[range.begin + i], options_.augment ? &augmentation : nullptr, slot);
    }
  }

  template <class T>
  static std::span<T> part(std::vector<T>& all, std::size_t index, std::size_t size) {
    return std::span(all).subspan(index * size, size);
  }

  const Dataset& data_;
  const ExampleShape shape_;
  const LoaderOptions options_;
  const std::uint64_t steps_per_epoch_;
  // Only the thread that calls fill() uses these.
  std::vector<std::uint32_t> order_;
  std::uint64_t order_epoch_;

  std::vector<Batch> ring_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Counts of batches since the start, guarded by mutex_ if there is a thread.
  std::uint64_t filled_ = 0, taken_ = 0, returned_ = 0;
  std::exception_ptr failure_;
  std::jthread thread_;
};

Loader::Loader(const Dataset& data, const LoaderOptions& options) {
  check(data, options);
  reader_ = std::make_unique<Reader>(data, options);
}

Loader::~Loader() = default;

std::uint64_t Loader::steps_per_epoch() const noexcept { return reader_->steps_per_epoch(); }

const Batch& Loader::next() { return reader_->next(); }

}  // namespace thinwire::trainer
