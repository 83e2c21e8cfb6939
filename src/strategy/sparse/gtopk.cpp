// gTop-k S-SGD (Shi et al., ICDCS 2019): the picks of the workers are merged pairwise, and after
// each merge only the k largest entries go on. log2 P rounds of k coordinates, however many workers
// there are; the same k coordinates change on all of them.
//
// A pick that a merge drops was not applied and must stay in a residual. The key `residual` says
// when the worker that picked it gets it back:
//   return  always (exact)
//   paper   only if no entry at the same index, of any worker, is in the result. An entry that was
//           dropped although its index is in the result is lost. This is the published rule, kept
//           to measure it: mass_lost is the share of the L1 norm of all picks that was lost.
// Merges round to what fits on the wire. The ranks that merged keep the rounding errors of the
// entries that are in the result.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "base/spec.h"
#include "collective/butterfly.h"
#include "kernel/sparse.h"
#include "strategy/common/phase_time.h"
#include "strategy/sparse/pick_outcomes.h"
#include "strategy/sparse/sparse_strategy.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

enum class Rule { give_back, paper };

constexpr Tag kOutcomeTag{7};

// Several ranks may do the same merge; each accounts for every count-th of its entries.
struct Performers {
  std::size_t position = 0, count = 1;
  bool takes(std::size_t entry) const noexcept { return entry % count == position; }
};

class GTopK final : public SparseStrategy {
 public:
  explicit GTopK(base::Spec& spec) : SparseStrategy(spec) {
    static constexpr std::string_view kRules[] = {"return", "paper"};
    rule_ = spec.choice("residual", kRules) == "paper" ? Rule::paper : Rule::give_back;
  }

  std::vector<Metric> metrics() const override {
    std::vector<Metric> out = SparseStrategy::metrics();
    out.push_back({"mass_lost", mass_lost_, mass_picked_});
    return out;
  }

 private:
  bool exchange(StepContext& context, std::size_t k) override {
    begin_step(context, k);
    timed_codec(context, [&] {
      value_.clear();
      value_.reserve(message::sparse_max_bytes(value_coding(), address_.numel, k));
      encode(picks(), address_, value_);
    });
    const auto combine = [&](Bytes lower, Bytes higher, Payload& out) {
      timed_codec(context, [&] { merge_messages(lower, higher, out); });
    };
    bool arrived = false;  // ready merged, by others
    const auto take = [&](Bytes merged_by_others) {
      timed_codec(context, [&] {
        message::decode_sparse(merged_by_others, value_coding(), address_, k_, final_);
        arrived = true;
      });
    };
    timed_wire(context, [&] {
      const std::size_t longest = message::sparse_max_bytes(value_coding(), address_.numel, k);
      merge_butterfly(context.wire, value_, longest, {std::ref(combine), std::ref(take)});
      if (rule_ == Rule::give_back) pass_outcomes_on(context.wire);
    });
    bool finite = true;
    timed_codec(context, [&] {
      if (!arrived) message::decode_sparse(value_, value_coding(), address_, k_, final_);
      finite = apply(context);
    });
    return finite;
  }

  double busiest_bytes(std::size_t numel, std::size_t k, int ranks) const override {
    const collective::Butterfly butterfly(0, ranks);
    const double rounds = butterfly.rounds() - (butterfly.folds() ? 1 : 0);
    return message_bytes(numel, k) * rounds;
  }
  double applied(int) const override { return 1; }

  void begin_step(StepContext& context, std::size_t k) {
    k_ = k;
    address_ = {context.model.grads.size(), context.step};
    rank_ = context.wire.rank();
    workers_ = context.wire.size();
    merges_ = 0;
    outcomes_.clear(k);
    children_.clear();
    roundings_.clear();
    drops_.clear();
    if (rule_ != Rule::give_back) {
      const auto most_merges = std::bit_width(static_cast<std::size_t>(workers_));
      drops_.reserve(2 * k * static_cast<std::size_t>(most_merges));
    }
    for (Sparse* entries : {&lower_, &higher_, &final_}) entries->reserve(k);
    for (Sparse* entries : {&merged_, &dropped_}) entries->reserve(2 * k);
    errors_.reserve(k);
    survivors_.reserve(k);
    bits_.reserve((k + 7) / 8);
    outcomes_.watch(picks());  // the first list
  }

  // One merge: decode, add, keep the k largest, round, encode, and note what became of the rest.
  void merge_messages(Bytes lower, Bytes higher, Payload& out) {
    message::decode_sparse(lower, value_coding(), address_, k_, lower_);
    message::decode_sparse(higher, value_coding(), address_, k_, higher_);
    kernel::merge(lower_, higher_, merged_);
    kernel::cut(merged_, k_, dropped_);
    errors_.resize(merged_.size());
    message::round_to_wire(value_coding(), merged_.values, errors_);
    drop_zeros();
    encode(merged_, address_, out);
    account(next_performers());
  }

  // Values that cancelled, or were rounded to 0, tell nobody anything.
  void drop_zeros() {
    std::size_t kept = 0;
    for (std::size_t j = 0; j < merged_.size(); ++j) {
      if (merged_.values[j] != 0) {
        merged_.indices[kept] = merged_.indices[j];
        merged_.values[kept] = merged_.values[j];
        errors_[kept++] = errors_[j];
      } else if (errors_[j] != 0) {
        dropped_.push_back(merged_.indices[j], errors_[j]);
      }
    }
    merged_.indices.resize(kept);
    merged_.values.resize(kept);
  }

  // Of the merge that comes next on this rank: who else does it.
  Performers next_performers() {
    const int merge = merges_++;
    const collective::Butterfly butterfly(rank_, workers_);
    const bool alone = butterfly.paired() && merge == 0;
    if (alone) {
      // The other side is one rank that has left, and will want to know.
      if (rule_ == Rule::give_back) {
        children_.push_back({rank_ + 1, outcomes_.size()});
        outcomes_.watch(higher_);
      }
      return {};
    }
    const int round = merge - (butterfly.paired() ? 1 : 0);
    const std::size_t count = std::size_t{2} << round;
    return {static_cast<std::size_t>(butterfly.place()) % count, count};
  }

  void account(const Performers& performers) {
    if (rule_ != Rule::give_back) {
      for (std::size_t j = 0; j < dropped_.size(); ++j) {
        if (performers.takes(j)) drops_.push_back({dropped_.indices[j], dropped_.values[j]});
      }
    }
    outcomes_.keep_only(merged_.indices);
    // If a later merge drops an entry, it comes back as it was picked, without any rounding.
    roundings_.push_back(outcomes_.size());
    PickOutcomes::Watched& roundings = outcomes_.watch();
    for (std::size_t j = 0; j < merged_.size(); ++j) {
      if (errors_[j] != 0 && performers.takes(j)) {
        PickOutcomes::add(roundings, merged_.indices[j], errors_[j]);
      }
    }
  }

  // Ranks whose merges somebody else did learn from it which of their entries lived.
  void pass_outcomes_on(Transport& wire) {
    const collective::Butterfly butterfly(rank_, workers_);
    if (butterfly.paired() && rank_ % 2 != 0) {
      bits_.resize((picks().size() + 7) / 8);
      wire.wait(wire.post_recv(rank_ - 1, kOutcomeTag, bits_));
      unpack_survivors(picks().indices, bits_, survivors_);
      outcomes_.keep_only(survivors_);
    }
    for (auto child = children_.rbegin(); child != children_.rend(); ++child) {
      pack_alive(outcomes_[child->list], bits_);
      wire.send(child->rank, kOutcomeTag, bits_);
    }
  }

  // Gives back to the residual what was picked, or rounded off, and not applied.
  void return_unapplied() override {
    if (rule_ == Rule::paper) outcomes_.keep_only(final_.indices);  // all that anybody knows
    const PickOutcomes::Watched& mine = outcomes_[0];
    for (const float value : picks().values) mass_picked_ += std::abs(value);
    look_up(picks().indices, final_.indices, [&](std::size_t j, bool in_final) {
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

  // Of the paper's rule: what was dropped on the way at indices that others brought to the end.
  void measure_loss() {
    for (const Drop& drop : drops_) {
      if (std::binary_search(final_.indices.begin(), final_.indices.end(), drop.index)) {
        mass_lost_ += std::abs(drop.value);
      }
    }
  }

  bool apply(StepContext& context) {
    bool finite = true;
    const MutFloats gradients = context.model.grads;
    for (std::size_t j = 0; j < final_.size(); ++j) {
      const float mean = final_.values[j] / static_cast<float>(workers_);
      gradients[final_.indices[j]] = mean;
      finite = finite && std::isfinite(mean);
    }
    count_selected(final_.indices);
    return finite;
  }

  struct Child {
    int rank;
    std::size_t list;  // of outcomes_, with what it handed on
  };
  struct Drop {
    std::uint32_t index;
    float value;
  };

  Rule rule_;
  // Of the step under way:
  std::size_t k_ = 0;
  message::SparseAddress address_;
  int rank_ = 0, workers_ = 1, merges_ = 0;
  Payload value_, bits_;
  Sparse lower_, higher_, merged_, dropped_, final_;
  std::vector<float> errors_;
  std::vector<std::uint32_t> survivors_;
  PickOutcomes outcomes_;
  std::vector<Child> children_;
  std::vector<std::size_t> roundings_;  // lists of outcomes_
  std::vector<Drop> drops_;
  // Of the run:
  double mass_lost_ = 0, mass_picked_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_gtopk(base::Spec& spec) { return std::make_unique<GTopK>(spec); }

}  // namespace thinwire::strategy
