#include "transport/roll_call.h"

#include <fmt/format.h>

#include <algorithm>

namespace thinwire {

Loss silent_rank(int rank, const std::string& complaint) {
  return {rank, fmt::format("{}, and it does not answer: its process is stopped, or its machine "
                            "hangs or is cut off",
                            complaint)};
}

bool RollCall::answered_by(const std::set<int>& ranks) const {
  return std::ranges::all_of(ranks, [&](int rank) { return waits_for_.contains(rank); });
}

std::optional<Loss> RollCall::verdict(const std::set<int>& expected) const {
  const auto silent = [&](int rank) {
    return expected.contains(rank) && !waits_for_.contains(rank);
  };
  const int last = end_of_chain();
  const auto first_silent = std::ranges::find_if(expected, silent);
  if (first_silent != expected.end()) {
    return silent_rank(silent(last) ? last : *first_silent, complaint_.text);
  }
  if (complaint_.kind == Kind::absence) return std::nullopt;
  if (complaint_.kind == Kind::broken) return Loss{complaint_.about, complaint_.text};
  if (!expected.contains(last)) {
    return Loss{last, fmt::format("{}, but it has already finished", complaint_.text)};
  }
  const bool ring = waits_for_.at(last) != kNobody;
  return Loss{last, fmt::format("{}, though its process runs: {}", complaint_.text,
                                ring ? "ranks wait for each other in a ring"
                                     : "it does not take part in the exchange")};
}

int RollCall::end_of_chain() const {
  std::set<int> seen = {complaint_.asker};
  int at = complaint_.about;
  while (seen.insert(at).second) {
    const auto next = waits_for_.find(at);
    if (next == waits_for_.end() || next->second == kNobody) return at;
    at = next->second;
  }
  return complaint_.about;
}

}  // namespace thinwire
