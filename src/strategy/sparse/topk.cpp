// Top-k S-SGD: every worker receives the picks of all others by all-gather, (P - 1) k coordinates,
// and adds them up in rank order. All picks are applied.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/spec.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/scattered_sum.h"
#include "strategy/sparse/sparse_strategy.h"
#include "thinwire/collective.h"
#include "transport/name_sender.h"

namespace thinwire::strategy {
namespace {

class TopKByAllGather final : public SparseStrategy {
 public:
  explicit TopKByAllGather(base::Spec& spec) : SparseStrategy(spec, {.int5 = true}) {}

 private:
  bool exchange_picks(const GradientStep& context, std::size_t k) override {
    Transport& wire = context.wire;
    const message::SparseAddress address{context.grads.size(), context.step};
    const std::size_t longest = message::sparse_max_bytes(value_coding(), address.numel, k);
    message_.reserve(longest);
    all_.reserve(longest * static_cast<std::size_t>(wire.size()));
    theirs_.reserve(k);
    changed_.reserve(std::min(k * static_cast<std::size_t>(wire.size()), address.numel));
    timed_codec(context, [&] {
      message_.clear();
      encode(picks(), address, message_);
    });
    lengths_.resize(static_cast<std::size_t>(wire.size()));
    allgather(wire, message_, all_, lengths_, longest);
    bool finite = true;
    timed_codec(context, [&] {
      sum_.begin(context.grads);
      std::size_t at = 0;
      for (int rank = 0; rank < wire.size(); ++rank) {
        const std::size_t length = lengths_[static_cast<std::size_t>(rank)];
        const Bytes message = Bytes(all_).subspan(at, length);
        transport::name_sender(wire, rank, [&] {
          message::decode_sparse(message, value_coding(), address, k, theirs_);
        });
        sum_.add(theirs_);
        at += length;
      }
      const auto divisor = static_cast<float>(wire.size());
      changed_.clear();
      sum_.finish([&](std::size_t index, float& value) {
        changed_.push_back(static_cast<std::uint32_t>(index));
        value /= divisor;
        finite = finite && std::isfinite(value);
      });
    });
    return finite;
  }

  void return_unapplied() override {
    count_selected(picks().indices);
    for (const std::uint32_t index : picks().indices) sent(index);
  }

  double busiest_bytes(std::size_t numel, std::size_t k, int ranks) const override {
    return message_bytes(numel, k) * (ranks - 1);
  }
  double applied(int workers) const override { return workers; }
  std::string remark(double workers_per_change, int workers) const override {
    const double worthwhile = merging_pays_from(workers);
    if (workers_per_change <= worthwhile) return {};
    return fmt::format(
        "topk: {:.1f} of {} workers contribute to a change on average; above {:.1f} gtopk delivers "
        "as much with fewer bytes",
        workers_per_change, workers, worthwhile);
  }

  std::span<const std::uint32_t> changed() const override { return changed_; }

  std::vector<std::uint32_t> changed_;
  Payload message_, all_;
  std::vector<std::uint64_t> lengths_;
  Sparse theirs_;
  ScatteredSum sum_;
};

}  // namespace

std::unique_ptr<Strategy> make_topk(base::Spec& spec) {
  return std::make_unique<TopKByAllGather>(spec);
}

}  // namespace thinwire::strategy
