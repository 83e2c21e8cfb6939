#include "rendezvous/failure_detector.h"

#include <fmt/format.h>

#include <algorithm>

namespace thinwire::rendezvous {

LostRank silent_rank(int rank, const std::string& suspicion) {
  return {rank, fmt::format("{}, and it does not answer: its process is stopped, or its machine "
                            "hangs or is cut off",
                            suspicion)};
}

bool FailureDetector::answered_by(const std::set<int>& ranks) const {
  return std::ranges::all_of(ranks, [&](int rank) { return waits_for_.contains(rank); });
}

std::optional<LostRank> FailureDetector::find_culprit(const std::set<int>& expected) const {
  const auto silent = [&](int rank) {
    return expected.contains(rank) && !waits_for_.contains(rank);
  };
  const int last = end_of_chain();
  const auto first_silent = std::ranges::find_if(expected, silent);
  if (first_silent != expected.end()) {
    return silent_rank(silent(last) ? last : *first_silent, suspicion_.text);
  }
  if (suspicion_.kind == Kind::absence) return std::nullopt;
  if (suspicion_.kind == Kind::broken) return LostRank{suspicion_.about, suspicion_.text};
  if (!expected.contains(last)) {
    return LostRank{last, fmt::format("{}, but it has already finished", suspicion_.text)};
  }
  const bool ring = waits_for_.at(last) != kNoRank;
  return LostRank{last, fmt::format("{}, though its process runs: {}", suspicion_.text,
                                    ring ? "ranks wait for each other in a ring"
                                         : "it does not take part in the exchange")};
}

int FailureDetector::end_of_chain() const {
  std::set<int> seen = {suspicion_.asker};
  int at = suspicion_.about;
  while (seen.insert(at).second) {
    const auto next = waits_for_.find(at);
    if (next == waits_for_.end() || next->second == kNoRank) return at;
    at = next->second;
  }
  return suspicion_.about;
}

}  // namespace thinwire::rendezvous
