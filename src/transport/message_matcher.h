// Pairs sends with receives between ranks that share memory (the engines threads and sim).
// Keeps order, not locks: the caller serialises access.
#pragma once

#include <algorithm>
#include <vector>

#include "thinwire/transport.h"

namespace thinwire::transport {

// A posted send or receive as both sides of a match see it.
struct Posted {
  int lane = 0;
  Tag tag{};
  int from = kAnyRank;  // of a receive: whom it accepts
  Bytes out;            // what a send offers
  MutBytes in;          // where a receive wants it
};

// The unmatched operations that concern one receiving rank. `Operation` derives from Posted.
template <class Operation>
class MessageMatcher {
 public:
  // How many operations meet here before their partners depends on timing; room for the usual
  // number keeps a second call of a collective from allocating what the first happened not to.
  MessageMatcher() {
    sends_.reserve(64);
    receives_.reserve(64);
  }

  // The oldest receive that takes this send, removed from the box; else null, and the send stays.
  Operation* post_send(Operation& send) {
    return match(receives_, sends_, send, [&](const Operation& r) { return fits(send, r); });
  }
  // The oldest send that suits this receive, removed from the box; else null, and it stays.
  Operation* post_receive(Operation& receive) {
    return match(sends_, receives_, receive, [&](const Operation& s) { return fits(s, receive); });
  }
  // Takes back an operation that was not matched. False if it was.
  bool withdraw(Operation& operation) {
    return std::erase(sends_, &operation) + std::erase(receives_, &operation) > 0;
  }

 private:
  using Queue = std::vector<Operation*>;  // short: a handful of operations per rank and lane

  static bool fits(const Operation& send, const Operation& receive) {
    return send.lane == receive.lane && send.tag == receive.tag &&
           (receive.from == kAnyRank || receive.from == send.from);
  }
  template <class Suits>
  static Operation* match(Queue& waiting, Queue& own, Operation& operation, Suits suits) {
    const auto found =
        std::find_if(waiting.begin(), waiting.end(), [&](Operation* o) { return suits(*o); });
    if (found == waiting.end()) {
      own.push_back(&operation);
      return nullptr;
    }
    Operation* partner = *found;
    waiting.erase(found);
    return partner;
  }

  Queue sends_;
  Queue receives_;
};

}  // namespace thinwire::transport
