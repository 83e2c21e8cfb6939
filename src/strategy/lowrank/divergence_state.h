// What PowerSGD remembers about a run that may diverge.
#pragma once

#include <fmt/format.h>

#include "strategy/common/dense_periods.h"
#include "strategy/common/divergence_guard.h"

namespace thinwire::strategy {

struct DivergenceState {
  DivergenceGuard guard{"a higher rank"};
  DensePeriods dense_periods;
  Alarm alarm = Alarm::none;    // because the errors grow at the highest rank
  std::uint64_t raised_at = 0;  // the step of the last rise of the rank, or 0
  bool warned = false;          // that the rank is too low

  bool has_risen_within(std::uint64_t steps, std::uint64_t step) const noexcept {
    return raised_at != 0 && step <= raised_at + steps;
  }

  void save(base::ByteWriter& out) const {
    guard.save(out);
    dense_periods.save(out);
    out.put(static_cast<std::uint32_t>(alarm));
    out.put(raised_at);
    out.put<std::uint32_t>(warned ? 1 : 0);
  }
  // Throws WireError on foreign bytes.
  void load(base::ByteReader& in) {
    guard.load(in);
    dense_periods.load(in);
    const auto saved = in.get<std::uint32_t>();
    if (saved > static_cast<std::uint32_t>(Alarm::urgent)) {
      throw WireError(fmt::format("powersgd: its state is damaged (alarm {})", saved));
    }
    alarm = static_cast<Alarm>(saved);
    raised_at = in.get<std::uint64_t>();
    warned = in.get<std::uint32_t>() != 0;
  }
};

}  // namespace thinwire::strategy
