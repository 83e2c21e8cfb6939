#include "strategy/lowrank/powersgd.h"

#include <fmt/format.h>

#include "kernel/orthonormal.h"
#include "strategy/common/state.h"
#include "thinwire/collective.h"
#include "transport/payload_scale.h"

namespace thinwire::strategy {
namespace {

constexpr std::uint32_t kStateVersion = 3;

}  // namespace

double PowerSgd::bytes_of(const LowRankLayout& layout, const Transport& wire, int rank) {
  const auto bytes = [&](std::size_t numel) {
    return static_cast<double>(
        allreduce_bytes(transport::represented_bytes(wire, numel), rank, wire.size()));
  };
  return bytes(layout.p_numel + layout.exact_numel) + bytes(layout.q_numel);
}

// Compares the bytes of rank 0, which is the same number on every rank.
void PowerSgd::choose_ranks(const StrategyContext& context) {
  // Shares of the bytes of a dense exchange: the most at the start, the most after a rise, and the
  // share from which all steps are dense.
  constexpr double kMostShare = 0.33, kRaisedShare = 0.08, kNoGain = 0.5;
  const Transport& wire = context.wire;
  const auto dense = static_cast<double>(
      allreduce_bytes(transport::represented_bytes(wire, context.layout.numel), 0, wire.size()));
  const auto share_at = [&](std::size_t rank) {
    return bytes_of(low_rank_layout(context.layout, rank), wire, 0) / dense;
  };
  if (rank_.is_fresh()) {
    std::size_t rank = automatic_rank(context.run);
    while (rank > 1 && share_at(rank) > kMostShare) rank /= 2;
    rank_.start(rank);
  }
  for (std::size_t rank = rank_.lowest(); rank <= kernel::kMostRank; rank *= 2) {
    if (rank > rank_.rank() && share_at(rank) > kRaisedShare) break;
    layouts_.push_back(low_rank_layout(context.layout, rank, rank_.lowest()));
    rank_.limit(rank);
    if (rank == rank_.rank()) level_ = layouts_.size() - 1;
  }
  const double least = share_at(rank_.lowest());
  gains_ = !rank_.is_automatic() || least <= kNoGain;
  if (gains_ || wire.rank() != 0) return;
  context.warn(fmt::format(
      "powersgd: an exchange at rank {} would take {:.0f} % of the bytes of a dense one; all steps "
      "are dense",
      rank_.lowest(), 100 * least));
}

void PowerSgd::use_layout(const StrategyContext& context) {
  first_.resize(layout().p_numel + layout().exact_numel);
  own_.resize(layout().q_numel);
  mean_.resize(layout().q_numel);
  counts_.bytes = bytes_of(layout(), context.wire, context.wire.rank());
}

void PowerSgd::begin(const StrategyContext& context) {
  const Transport& wire = context.wire;
  counts_.dense_bytes = static_cast<double>(allreduce_bytes(
      transport::represented_bytes(wire, context.layout.numel), wire.rank(), wire.size()));
  choose_ranks(context);
  dense_steps_ = start_ ? static_cast<std::uint64_t>(*start_) : automatic_start(context.run);
  const bool fresh = q_.empty();
  if (fresh) rank_.emptied(dense_steps_);
  const LowRankLayout& largest = layouts_.back();
  first_.reserve(largest.p_numel + largest.exact_numel + kNormsNumel);
  own_.reserve(largest.q_numel);
  mean_.reserve(largest.q_numel);
  q_.reserve(largest.q_numel);
  prepare(errors_, layout().error_numel, "error memory");
  prepare(q_, layout().q_numel, "vectors of PowerSGD");
  use_layout(context);
  std::size_t longest = 0;
  for (const LowRankTensor& matrix : largest.matrices) {
    longest = std::max(longest, matrix.shape.p_numel());
  }
  for (const LowRankTensor& matrix : layout().matrices) {
    longest = std::max(longest, matrix.shape.p_numel());
    if (fresh) {
      kernel::rescale(q_of(matrix, q_), matrix.shape.columns, {context.run.seed, 0, matrix.q});
    }
  }
  scratch_.resize(longest);
}

std::vector<Metric> PowerSgd::metrics() const {
  double compressed = 0, all = 0;
  if (!layouts_.empty()) {
    for (const LowRankTensor& matrix : layout().matrices) {
      compressed += static_cast<double>(matrix.shape.numel());
    }
    all = compressed + static_cast<double>(layout().exact_numel);
  }
  return {{"compression", counts_.dense_bytes, counts_.bytes},
          {"compressed_share", compressed, all},
          {"rank", static_cast<double>(rank_.rank())},
          {"replaced_vectors", counts_.replaced, counts_.vectors}};
}

void PowerSgd::save(Payload& out) const {
  base::ByteWriter writer(out);
  writer.put(kStateVersion);
  put_floats(writer, errors_);
  put_floats(writer, q_);
  rank_.save(writer);
  divergence_.save(writer);
}

void PowerSgd::load(Bytes in) {
  base::ByteReader reader(in, "the state of PowerSGD");
  expect_version(reader, kStateVersion, "powersgd");
  errors_ = get_floats(reader);
  q_ = get_floats(reader);
  rank_.load(reader);
  divergence_.load(reader);
  reader.expect_end();
  if (errors_.empty() != q_.empty()) {
    throw WireError(
        fmt::format("powersgd: its state is incomplete ({} elements of error memory, {} of Q)",
                    errors_.size(), q_.size()));
  }
}

std::unique_ptr<Strategy> make_powersgd(base::Spec& spec) {
  return std::make_unique<PowerSgd>(spec);
}

}  // namespace thinwire::strategy
