// Top-k S-SGD: the picks of every worker reach all others by all-gather, (P - 1) k coordinates, and
// are added up in rank order. Nothing that was picked comes back.
#include <algorithm>
#include <cmath>

#include "strategy/phase_time.h"
#include "strategy/sparse_strategy.h"
#include "thinwire/collective.h"
#include "transport/sender.h"

namespace thinwire {
namespace {

// Adds sparse vectors up in a dense one that starts as 0, and remembers where.
class ScatteredSum {
 public:
  void begin(MutFloats sum, std::size_t most_entries) {
    sum_ = sum;
    touched_.reserve(std::min(most_entries, sum.size()));
    seen_.resize((sum.size() + 63) / 64, 0);
    for (const std::uint32_t index : touched_) seen_[index / 64] = 0;  // of a sum that failed
    touched_.clear();
  }
  void add(const Sparse& entries) {
    for (std::size_t j = 0; j < entries.size(); ++j) {
      const std::uint32_t index = entries.indices[j];
      std::uint64_t& word = seen_[index / 64];
      const std::uint64_t bit = std::uint64_t{1} << index % 64;
      if ((word & bit) == 0) touched_.push_back(index);
      word |= bit;
      sum_[index] += entries.values[j];
    }
  }
  // Divides what was added up. False if a result is not finite.
  bool finish(float divisor) {
    bool finite = true;
    for (const std::uint32_t index : touched_) {
      seen_[index / 64] = 0;
      sum_[index] /= divisor;
      finite = finite && std::isfinite(sum_[index]);
    }
    touched_.clear();
    return finite;
  }

 private:
  MutFloats sum_;
  std::vector<std::uint64_t> seen_;  // a bit per element; all 0 between the steps
  std::vector<std::uint32_t> touched_;
};

class TopKByAllGather final : public SparseStrategy {
 public:
  explicit TopKByAllGather(Spec& spec) : SparseStrategy(spec) {}

 private:
  bool exchange(StepContext& context, std::size_t k) override {
    Transport& wire = context.wire;
    const SparseAddress address{context.model.grads.size(), context.step};
    const std::size_t longest = sparse_max_bytes(format(), address.numel, k);
    message_.reserve(longest);
    all_.reserve(longest * static_cast<std::size_t>(wire.size()));
    theirs_.reserve(k);
    timed_codec(context, [&] {
      message_.clear();
      encode(picks(), address, message_);
    });
    lengths_.resize(static_cast<std::size_t>(wire.size()));
    timed_wire(context, [&] { allgather(wire, message_, all_, lengths_, longest); });
    bool finite = true;
    timed_codec(context, [&] {
      sum_.begin(context.model.grads, k * lengths_.size());
      std::size_t at = 0;
      for (int rank = 0; rank < wire.size(); ++rank) {
        const std::size_t length = lengths_[static_cast<std::size_t>(rank)];
        const Bytes message = Bytes(all_).subspan(at, length);
        name_sender(wire, rank, [&] { decode_sparse(message, format(), address, k, theirs_); });
        sum_.add(theirs_);
        at += length;
      }
      finite = sum_.finish(static_cast<float>(wire.size()));
    });
    return finite;
  }

  void settle() override {
    count_selected(picks().indices);
    for (const std::uint32_t index : picks().indices) sent(index);
  }

  double messages(int workers) const override { return workers - 1; }
  double applied(int workers) const override { return workers; }

  Payload message_, all_;
  std::vector<std::uint64_t> lengths_;
  Sparse theirs_;
  ScatteredSum sum_;
};

}  // namespace

std::unique_ptr<Strategy> make_topk(Spec& spec) { return std::make_unique<TopKByAllGather>(spec); }

}  // namespace thinwire
