#include "strategy/averaging/difference_average.h"

#include <algorithm>

#include "strategy/common/state.h"

namespace thinwire::strategy {
namespace {

// An average is made in the background, where times are not accounted for.
class Untimed final : public collective::PhaseTiming {
 public:
  void compute(collective::Work work) override { work(); }
};

}  // namespace

void DifferenceAverage::begin(Floats params, std::size_t longest_part, int ranks) {
  if (reference_.empty()) set_reference(params);
  prepare(reference_, params.size(), "reference model");
  allreduce_.begin(std::min(longest_part, params.size()), ranks);
}

void DifferenceAverage::set_reference(Floats params) {
  reference_.assign(params.begin(), params.end());
}

bool DifferenceAverage::average(Transport& wire, std::size_t begin, MutFloats snapshot,
                                MutFloats mean) {
  const MutFloats reference = MutFloats(reference_).subspan(begin, snapshot.size());
  difference_.resize(snapshot.size());
  for (std::size_t i = 0; i < snapshot.size(); ++i) difference_[i] = snapshot[i] - reference[i];
  Untimed timing;
  if (!allreduce_.agree(wire, timing, difference_, 0)) return false;
  allreduce_.exchange(wire, timing, {difference_, mean, collective::Rounding::nearest});
  for (std::size_t i = 0; i < snapshot.size(); ++i) {
    snapshot[i] -= difference_[i];
    mean[i] += reference[i];
    reference[i] = mean[i];
  }
  return true;
}

}  // namespace thinwire::strategy
