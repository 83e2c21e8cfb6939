// What two workers do with each other's models when they gossip. No transport here: messages that
// arrive are handed in, messages to be sent are handed out.
#pragma once

#include <memory>
#include <vector>

#include "base/bytes.h"
#include "message/gossip_message.h"

namespace thinwire::strategy {

// A message to be sent. It belongs to the exchange, which does not touch it while it is on its way.
struct OutgoingMessage {
  int to = 0;
  const message::GossipMessage* message = nullptr;
};

// arrived() is called by the task that receives, everything else by the training thread.
class GossipExchange {
 public:
  virtual ~GossipExchange() = default;

  virtual void begin(Floats params, int ranks) = 0;

  // May take the message's memory and leave other memory of that size in its place.
  virtual void arrived(int from, const message::GossipMessage::Contents& contents,
                       message::GossipMessage& message) = 0;

  // What arrived is merged into params. Answers go to `out`, unless messages are still on their way
  // (`may_send` is false): then they are given another time.
  struct Attended {
    bool merged = false;
    bool refused = false;  // what was begun came to nothing
    // Of messages in few bits that came since the last time, and those of them too far off to read.
    std::uint64_t coded_blocks = 0, blocks_out_of_range = 0;
  };
  virtual Attended attend(MutFloats params, bool may_send, std::vector<OutgoingMessage>& out) = 0;

  // Begins an exchange with `peer`, while no message is on its way. False: not now. What rounding
  // adds to a message in few bits is taken from params.
  virtual bool start(int peer, MutFloats params, std::vector<OutgoingMessage>& out) = 0;

  // Returns whether both sides get the other's model.
  virtual bool mutual() const = 0;
  // Returns the weight of this worker's model in the mean of all, once nothing is in flight.
  virtual double weight() const = 0;
  // Returns by what a step of this worker is to be multiplied. The part of its weight that is on
  // its way takes part in no step, so the rest must take longer ones (Assran et al. 2019).
  virtual double step_scale() const { return 1; }

  virtual void save(base::ByteWriter& out) const = 0;
  virtual void load(base::ByteReader& in) = 0;
};

// With so many bits per parameter in its messages: 32, 8 or 4.
std::unique_ptr<GossipExchange> make_push_sum(unsigned bits = 32);
std::unique_ptr<GossipExchange> make_pair_swap();

}  // namespace thinwire::strategy
