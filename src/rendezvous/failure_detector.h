// Who is to blame when nothing comes any more: rank 0 asks every rank whom it waits for, and
// follows the answers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace thinwire::rendezvous {

// A rank that cannot be counted on any more, and why.
struct LostRank {
  int rank;
  std::string reason;
};
// Of a rank that was asked for an answer to a suspicion, and gave none.
LostRank silent_rank(int rank, const std::string& suspicion);

class FailureDetector {
 public:
  static constexpr int kNobody = -1;

  enum class Kind : std::uint8_t {
    delay = 0,    // nothing came; whoever it is waited for may be waiting, too
    broken = 1,   // the connection was closed: if all answer, no third rank is to blame
    absence = 2,  // somebody has not come; that alone is no fault, for it may be busy
  };
  // What one rank has to say against another.
  struct Suspicion {
    int asker;
    int about;
    Kind kind;
    std::string text;  // "no progress for 1.0 s"
  };

  explicit FailureDetector(Suspicion suspicion) : suspicion_(std::move(suspicion)) {}

  // A rank answered: it waits for another one, or for kNobody.
  void answer(int rank, int waits_for) { waits_for_[rank] = waits_for; }
  bool answered_by(const std::set<int>& ranks) const;

  // Once `expected`, the ranks that are neither lost nor finished, have had time to answer. One
  // that did not is to blame; else, for a delay, the one at whom the chain of waits ends that
  // begins with the asker; in a ring of waits, the one that the suspicion is about.
  std::optional<LostRank> find_culprit(const std::set<int>& expected) const;

 private:
  int end_of_chain() const;

  Suspicion suspicion_;
  std::map<int, int> waits_for_;
};

}  // namespace thinwire::rendezvous
