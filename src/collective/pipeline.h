// The loop of ring, doubling and chain. It sends and receives messages of known sizes in a fixed
// order and keeps several of them in flight, so that the next ones travel while a rank computes.
#pragma once

#include "collective/butterfly.h"
#include "collective/reduction.h"
#include "thinwire/collective.h"

namespace thinwire::collective {

// What a rank does in step i: it may send a message, receive one, both or neither.
struct Hop {
  Peering peering;
  Bytes out;
  MutBytes in;  // the memory that the received data replaces, or is combined with
};

// The messages of a rank. All ranks use the same numbering: message i of one rank is exchanged with
// message i of its peers.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual Hop hop(std::size_t message) const = 0;

  std::size_t messages = 0;
  // Send i may start only after message i - depends was received and combined. 0: a received
  // message is forwarded unchanged.
  std::size_t depends = 1;
  // A received message i that is stored replaces the bytes of send i - overwrites. If `overwrites`
  // equals `messages`, it replaces no bytes of a send.
  std::size_t overwrites = 0;
  std::size_t longest = 0;  // bytes of the longest message that is combined
  Share completes;          // messages whose combination is final; stored messages always are
};

// Called once for each piece of the result, while the piece is in the cache and other messages are
// in flight.
class Finish {
 public:
  virtual ~Finish() = default;
  // This rank has combined the piece; the callee may change it before it is forwarded.
  virtual void combined(MutBytes piece) = 0;
  // The piece has arrived from the rank that combined it.
  virtual void arrived(Bytes piece) = 0;
};

void run_pipeline(Transport& wire, Tag tag, const Schedule& schedule, const Reduction& reduction,
                  Finish* finish = nullptr);

}  // namespace thinwire::collective
