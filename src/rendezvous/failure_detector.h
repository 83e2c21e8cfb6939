// Finds the rank to blame when no bytes arrive any more: rank 0 asks every rank which rank it waits
// for, and follows the answers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace thinwire::rendezvous {

// A rank that takes no part in the group any more, and the reason.
struct LostRank {
  int rank;
  std::string reason;
};
// Returns the loss of a rank that gave no answer after a suspicion.
LostRank silent_rank(int rank, const std::string& suspicion);

class FailureDetector {
 public:
  static constexpr int kNobody = -1;

  enum class Kind : std::uint8_t {
    delay = 0,    // no bytes arrived; the rank that should send may be waiting itself
    broken = 1,   // the connection was closed: if all answer, no third rank is to blame
    absence = 2,  // a rank has not arrived; that alone is no fault, because it may be busy
  };
  // One rank reports that it cannot go on because of another.
  struct Suspicion {
    int asker;
    int about;
    Kind kind;
    std::string text;  // "no progress for 1.0 s"
  };

  explicit FailureDetector(Suspicion suspicion) : suspicion_(std::move(suspicion)) {}

  // Records the answer of a rank: the rank it waits for, or kNobody.
  void answer(int rank, int waits_for) { waits_for_[rank] = waits_for; }
  bool answered_by(const std::set<int>& ranks) const;

  // Returns the rank to blame. Call it when `expected`, the ranks that are neither lost nor
  // finished, have had time to answer. A rank that did not answer is to blame; else, for a delay,
  // the rank at which the chain of waits ends that begins with the asker; in a ring of waits, the
  // rank that the suspicion is about.
  std::optional<LostRank> find_culprit(const std::set<int>& expected) const;

 private:
  int end_of_chain() const;

  Suspicion suspicion_;
  std::map<int, int> waits_for_;
};

}  // namespace thinwire::rendezvous
