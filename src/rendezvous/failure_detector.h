// Finds the rank to blame when no bytes arrive: rank 0 asks every rank for which rank it waits, and
// follows the answers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "thinwire/types.h"

namespace thinwire::rendezvous {

// A rank that does not take part in the group any more, and the reason.
struct LostRank {
  int rank;
  std::string reason;
};
// Returns a LostRank for a rank that did not answer after a suspicion.
LostRank silent_rank(int rank, const std::string& suspicion);

class FailureDetector {
 public:
  enum class Kind : std::uint8_t {
    delay = 0,    // no bytes arrived; the rank that should send may be waiting itself
    broken = 1,   // the connection was closed: if all answer, no third rank is to blame
    absence = 2,  // a rank has not finished; that alone is no fault, because it may be busy
  };
  // The report of a rank that cannot continue because of another.
  struct Suspicion {
    int asker;
    int about;
    Kind kind;
    std::string text;  // "no progress for 1.0 s"
  };

  explicit FailureDetector(Suspicion suspicion) : suspicion_(std::move(suspicion)) {}

  // Records the answer of a rank: the rank it waits for, or kNoRank.
  void answer(int rank, int waits_for) { waits_for_[rank] = waits_for; }
  bool answered_by(const std::set<int>& ranks) const;

  // Returns the rank to blame. The caller must give the `expected` ranks, those that are neither
  // lost nor finished, time to answer before. A rank that did not answer is to blame. If all have
  // answered a delay, the chain of waits that begins with the asker is followed, and the rank at
  // its end is to blame; in a ring of waits, the rank that the suspicion is about.
  std::optional<LostRank> find_culprit(const std::set<int>& expected) const;

 private:
  int end_of_chain() const;

  Suspicion suspicion_;
  std::map<int, int> waits_for_;
};

}  // namespace thinwire::rendezvous
