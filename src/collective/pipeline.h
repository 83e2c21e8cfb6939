// The loop of ring, doubling and chain: messages of known sizes in a fixed order, with several of
// them in flight, so that the next ones are on their way while a rank works on one.
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

// Message i of one rank meets message i of its peers: all ranks number them alike.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual Hop hop(std::size_t message) const = 0;

  std::size_t messages = 0;
  // Send i needs message i - depends to have been taken in. 0: a message is sent on as it came.
  std::size_t depends = 1;
  // A message i that is stored replaces bytes that left with send i - overwrites, or none if it is
  // as large as `messages`.
  std::size_t overwrites = 0;
  std::size_t longest = 0;  // message that is combined, in bytes
  Share completes;          // the messages whose combination is final; what is stored always is
};

// Is called once for each piece of the result, while it is in the cache and others are on their
// way.
class Finish {
 public:
  virtual ~Finish() = default;
  // This rank has combined the piece. It may be changed before it is sent on.
  virtual void combined(MutBytes piece) = 0;
  // The piece has arrived from the rank that combined it.
  virtual void arrived(Bytes piece) = 0;
};

void run_pipeline(Transport& wire, Tag tag, const Schedule& schedule, const Reduction& reduction,
                  Finish* finish = nullptr);

}  // namespace thinwire::collective
