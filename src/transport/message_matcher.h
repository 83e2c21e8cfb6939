// Matches sends with receives between ranks that share memory (the backends threads and sim), in
// the order in which they were posted. It has no lock: the caller serializes access.
#pragma once

#include <algorithm>
#include <vector>

#include "thinwire/transport.h"

namespace thinwire::transport {

// A posted send or receive as both sides of a match see it.
struct Posted {
  int lane = 0;
  Tag tag{};
  int from = kAnyRank;  // of a receive: the sender that it accepts
  Bytes out;            // the message of a send
  MutBytes in;          // the memory of a receive
};

// The unmatched operations that concern one receiving rank. `Operation` derives from Posted.
template <class Operation>
class MessageMatcher {
 public:
  // How many operations wait here for a match depends on timing. The queues have room for the usual
  // number from the start, so that a later call of a collective does not allocate.
  MessageMatcher() {
    sends_.reserve(64);
    receives_.reserve(64);
  }

  // Returns the oldest receive that matches this send and removes it. If there is none, returns
  // null and keeps the send.
  Operation* post_send(Operation& send) {
    return match(receives_, sends_, send, [&](const Operation& r) { return fits(send, r); });
  }
  // Returns the oldest send that matches this receive and removes it. If there is none, returns
  // null and keeps the receive.
  Operation* post_receive(Operation& receive) {
    return match(sends_, receives_, receive, [&](const Operation& s) { return fits(s, receive); });
  }
  // Removes an operation. Returns false if it was already matched.
  bool withdraw(Operation& operation) {
    return std::erase(sends_, &operation) + std::erase(receives_, &operation) > 0;
  }

 private:
  using Queue = std::vector<Operation*>;  // short: a handful of operations per rank and lane

  static bool fits(const Operation& send, const Operation& receive) {
    return send.lane == receive.lane && send.tag == receive.tag &&
           (receive.from == kAnyRank || receive.from == send.from);
  }
  template <class Matches>
  static Operation* match(Queue& waiting, Queue& own, Operation& operation, Matches matches) {
    const auto found =
        std::find_if(waiting.begin(), waiting.end(), [&](Operation* o) { return matches(*o); });
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
