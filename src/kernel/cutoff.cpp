#include "kernel/cutoff.h"

#include "kernel/magnitude.h"

namespace thinwire::kernel {

void CutoffSearch::count(Floats values) noexcept {
  const int above = shift_above();
  const int below = shift();
  const std::uint32_t mask = (1u << (above - below)) - 1;
  const auto count_one = [&](float value, std::size_t way) {
    const std::uint32_t bits = magnitude(value);
    if (bits >> above == prefix_) ++counters_[way][bits >> below & mask];
  };
  std::size_t i = 0;
  for (; i + kWays <= values.size(); i += kWays) {
    for (std::size_t way = 0; way < kWays; ++way) count_one(values[i + way], way);
  }
  for (; i < values.size(); ++i) count_one(values[i], 0);
}

void CutoffSearch::close_round() noexcept {
  std::uint32_t digit = 1u << (shift_above() - shift());
  for (std::size_t here = 0;;) {
    --digit;
    here = 0;
    for (const auto& way : counters_) here += way[digit];
    if (here >= remaining_ || digit == 0) break;
    remaining_ -= here;
  }
  prefix_ = prefix_ << (shift_above() - shift()) | digit;
  ++round_;
  counters_ = {};
}

Cutoff find_cutoff(Floats values, std::size_t k) noexcept {
  CutoffSearch search(k);
  for (int round = 0; round < CutoffSearch::kRounds; ++round) {
    search.count(values);
    search.close_round();
  }
  return search.cutoff();
}

}  // namespace thinwire::kernel
