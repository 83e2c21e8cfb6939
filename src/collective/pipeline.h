// The one loop behind ring, doubling and chain: messages of known sizes in a fixed order, several
// of them in flight, so that the wire carries the next while a rank works on the last.
#pragma once

#include "collective/butterfly.h"
#include "collective/reduction.h"
#include "thinwire/collective.h"

namespace thinwire::collective {

// What a rank does with message number i: it may send one, receive one, both or neither.
struct Hop {
  Meeting meeting;
  Bytes out;
  MutBytes in;  // where what arrives belongs, or what it is combined with, in place
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

// Sees each piece of the result once, while it is in the cache and the wire is busy with others.
class Finish {
 public:
  virtual ~Finish() = default;
  virtual void combined(MutBytes piece) = 0;  // by this rank; it is sent on as it is left
  virtual void arrived(Bytes piece) = 0;      // from the rank that combined it
};

void run_pipeline(Transport& wire, Tag tag, const Schedule& schedule, const Reduction& reduction,
                  Finish* finish = nullptr);

}  // namespace thinwire::collective
