// gTop-k S-SGD (Shi et al., ICDCS 2019): the picks of the workers are merged pairwise, and each
// merge keeps only the k largest entries. Each worker sends k coordinates in each of log2 P rounds,
// and the same k coordinates change on all workers.
//
// A pick that a merge drops was not applied and must stay in a residual. The key `residual` says
// when the worker that picked it gets it back:
//   return  always (exact)
//   paper   only if no entry at the same index, of any worker, is in the result. An entry that was
//           dropped although its index is in the result is lost. This is the published rule, kept
//           to measure it: mass_lost is the share of the L1 norm of all picks that was lost.
// Merges round to what fits on the wire. The ranks that merged keep the rounding errors of the
// entries that are in the result.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/spec.h"
#include "collective/butterfly.h"
#include "kernel/sparse.h"
#include "strategy/common/entries.h"
#include "strategy/common/phase_time.h"
#include "strategy/sparse/pick_outcomes.h"
#include "strategy/sparse/sparse_strategy.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

enum class Rule { return_picks, paper };

constexpr Tag kOutcomeTag{7};

// Several ranks do the same merge; each accounts for every count-th of its entries.
struct MergeShare {
  std::size_t position = 0, count = 1;
  bool takes(std::size_t entry) const noexcept { return entry % count == position; }
};

class GTopK final : public SparseStrategy {
 public:
  explicit GTopK(base::Spec& spec) : SparseStrategy(spec, {.int5 = true}) {
    static constexpr std::string_view kRules[] = {"return", "paper"};
    rule_ = spec.choice("residual", kRules) == "paper" ? Rule::paper : Rule::return_picks;
  }

  std::vector<Metric> metrics() const override {
    std::vector<Metric> out = SparseStrategy::metrics();
    out.push_back({"mass_lost", mass_lost_, mass_picked_});
    return out;
  }

 private:
  // The rule of the merge, with the time of its work.
  struct TimedRule {
    GTopK& self;
    const GradientStep& context;

    void encode(const Sparse& value, Payload& out) {
      timed_codec(context, [&] { self.encode(value, self.address_, out); });
    }
    void decode(Bytes in, Sparse& out) {
      timed_codec(context, [&] {
        out.reserve(self.k_);
        message::decode_sparse(in, self.value_coding(), self.address_, self.k_, out);
      });
    }
    void combine(const Sparse& lower, const Sparse& higher, Sparse& out) {
      timed_codec(context, [&] { self.combine(lower, higher, out); });
    }
  };

  bool exchange_picks(const GradientStep& context, std::size_t k) override {
    timed_codec(context, [&] { begin_step(context, k); });
    TimedRule rule{*this, context};
    merge_.run(context.wire, result_, message::sparse_max_bytes(value_coding(), address_.numel, k),
               rule);
    if (rule_ == Rule::return_picks) pass_outcomes_on(context.wire);
    bool finite = true;
    timed_codec(context, [&] { finite = apply(context.grads); });
    return finite;
  }

  std::span<const std::uint32_t> changed() const override { return result_.indices; }

  double busiest_bytes(std::size_t numel, std::size_t k, int ranks) const override {
    const collective::Butterfly butterfly(0, ranks);
    const double rounds = butterfly.rounds() - (butterfly.folds() ? 1 : 0);
    return message_bytes(numel, k) * rounds;
  }
  double applied(int) const override { return 1; }
  std::string remark(double workers_per_change, int workers) const override {
    const double worthwhile = merging_pays_from(workers);
    if (workers_per_change >= worthwhile) return {};
    return fmt::format(
        "gtopk: {:.1f} of {} workers contribute to a change on average; below {:.1f} topk delivers "
        "as much with fewer bytes",
        workers_per_change, workers, worthwhile);
  }

  void begin_step(const GradientStep& context, std::size_t k) {
    k_ = k;
    address_ = {context.grads.size(), context.step};
    rank_ = context.wire.rank();
    workers_ = context.wire.size();
    merges_ = 0;
    outcomes_.clear(k);
    watches_partner_ = false;
    roundings_.clear();
    drops_.clear();
    if (rule_ != Rule::return_picks) {
      const auto most_merges = std::bit_width(static_cast<std::size_t>(workers_));
      drops_.reserve(2 * k * static_cast<std::size_t>(most_merges));
    }
    result_.reserve(2 * k);
    result_ = picks();
    dropped_.reserve(2 * k);
    errors_.reserve(k);
    survivors_.reserve(k);
    bits_.reserve((k + 7) / 8);
    outcomes_.watch(picks());  // list 0
  }

  // Adds the two values, keeps the k largest entries, rounds them, and notes what was dropped.
  void combine(const Sparse& lower, const Sparse& higher, Sparse& out) {
    out.reserve(2 * k_);
    kernel::merge(lower, higher, out);
    kernel::cut(out, k_, dropped_);
    strategy::drop_zeros(out);  // sums that cancelled
    errors_.resize(out.size());
    message::round_to_wire(value_coding(), out.values, errors_);
    drop_rounded_to_zero(out);
    account(next_share(higher), out);
  }

  // Moves values that were rounded to 0 to what was dropped.
  void drop_rounded_to_zero(Sparse& merged) {
    std::size_t kept = 0;
    for (std::size_t j = 0; j < merged.size(); ++j) {
      if (merged.values[j] != 0) {
        merged.indices[kept] = merged.indices[j];
        merged.values[kept] = merged.values[j];
        errors_[kept++] = errors_[j];
      } else {
        dropped_.push_back(merged.indices[j], errors_[j]);
      }
    }
    merged.indices.resize(kept);
    merged.values.resize(kept);
  }

  // Returns which part of the next merge this rank accounts for.
  MergeShare next_share(const Sparse& higher) {
    const int merge = merges_++;
    const collective::Butterfly butterfly(rank_, workers_);
    if (butterfly.paired() && merge == 0) {
      // `higher` are the picks of the next rank, which takes part in no other merge and has to be
      // informed which of its picks were applied.
      if (rule_ == Rule::return_picks) {
        watches_partner_ = true;
        partner_list_ = outcomes_.size();
        outcomes_.watch(higher);
      }
      return {};
    }
    const int round = merge - (butterfly.paired() ? 1 : 0);
    const std::size_t count = std::size_t{2} << round;
    return {static_cast<std::size_t>(butterfly.place()) % count, count};
  }

  void account(const MergeShare& share, const Sparse& merged) {
    if (rule_ == Rule::paper) {
      for (std::size_t j = 0; j < dropped_.size(); ++j) {
        if (share.takes(j)) drops_.push_back({dropped_.indices[j], dropped_.values[j]});
      }
    }
    outcomes_.keep_only(merged.indices);
    // The rounding errors are in a list of their own: if a later merge drops an entry, its worker
    // gets back the pick as it was, without any rounding.
    roundings_.push_back(outcomes_.size());
    PickOutcomes::Watched& roundings = outcomes_.watch();
    for (std::size_t j = 0; j < merged.size(); ++j) {
      if (errors_[j] != 0 && share.takes(j)) {
        PickOutcomes::add(roundings, merged.indices[j], errors_[j]);
      }
    }
  }

  // Sends to the odd rank of each pair, which did not merge, which of its picks were applied.
  void pass_outcomes_on(Transport& wire) {
    const collective::Butterfly butterfly(rank_, workers_);
    if (butterfly.paired() && rank_ % 2 != 0) {
      bits_.resize((picks().size() + 7) / 8);
      wire.wait(wire.post_recv(rank_ - 1, kOutcomeTag, bits_));
      unpack_survivors(picks().indices, bits_, survivors_);
      outcomes_.keep_only(survivors_);
    }
    if (watches_partner_) {
      pack_alive(outcomes_[partner_list_], bits_);
      wire.send(rank_ + 1, kOutcomeTag, bits_);
    }
  }

  // Adds picks that were not applied, and rounding errors of those that were, to the residual.
  void return_unapplied() override {
    if (rule_ == Rule::paper) outcomes_.keep_only(result_.indices);
    const PickOutcomes::Watched& mine = outcomes_[0];
    for (const float value : picks().values) mass_picked_ += std::abs(value);
    look_up(picks().indices, result_.indices, [&](std::size_t j, bool in_final) {
      const bool applied = rule_ == Rule::paper ? in_final : mine.alive[j] != 0;
      const std::uint32_t index = picks().indices[j];
      if (applied) sent(index);
      if (!applied) residual()[index] += picks().values[j];
    });
    for (const std::size_t list : roundings_) {
      const PickOutcomes::Watched& roundings = outcomes_[list];
      for (std::size_t j = 0; j < roundings.entries.size(); ++j) {
        if (roundings.alive[j] == 0) continue;
        residual()[roundings.entries.indices[j]] += roundings.entries.values[j];
      }
    }
    measure_loss();
  }

  // With the published rule: adds up the entries that were dropped although their index is in the
  // result.
  void measure_loss() {
    for (const Drop& drop : drops_) {
      if (std::binary_search(result_.indices.begin(), result_.indices.end(), drop.index)) {
        mass_lost_ += std::abs(drop.value);
      }
    }
  }

  // Writes the mean to the gradients, which are 0. Returns whether all values are finite.
  bool apply(MutFloats gradients) {
    bool finite = true;
    for (std::size_t j = 0; j < result_.size(); ++j) {
      const float mean = result_.values[j] / static_cast<float>(workers_);
      gradients[result_.indices[j]] = mean;
      finite = finite && std::isfinite(mean);
    }
    count_selected(result_.indices);
    return finite;
  }

  struct Drop {
    std::uint32_t index;
    float value;
  };

  Rule rule_;
  ButterflyMerge<Sparse> merge_;
  // State of the current step:
  std::size_t k_ = 0;
  message::SparseAddress address_;
  int rank_ = 0, workers_ = 1;
  int merges_ = 0;           // how many this rank has done
  Sparse result_, dropped_;  // the value that is merged; what the last merge dropped
  Payload bits_;
  std::vector<float> errors_;
  std::vector<std::uint32_t> survivors_;
  PickOutcomes outcomes_;
  bool watches_partner_ = false;        // whether this rank merged for the next rank
  std::size_t partner_list_ = 0;        // the list of outcomes_ with the picks of that rank
  std::vector<std::size_t> roundings_;  // lists of outcomes_
  std::vector<Drop> drops_;             // with the published rule: all that merges dropped
  // Sums over the run:
  double mass_lost_ = 0, mass_picked_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_gtopk(base::Spec& spec) { return std::make_unique<GTopK>(spec); }

}  // namespace thinwire::strategy
