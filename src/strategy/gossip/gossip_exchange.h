// The two ways in which workers exchange models by gossip: push-sum and pairs. An exchange uses no
// transport: its caller passes the messages that arrive and sends the messages that it returns.
#pragma once

#include <memory>
#include <vector>

#include "base/bytes.h"
#include "message/gossip_message.h"

namespace thinwire::strategy {

// A message to be sent. The exchange owns it and does not change it until it is sent.
struct OutgoingMessage {
  int to = 0;
  const message::GossipMessage* message = nullptr;
};

// The task that receives calls arrived(); the training thread calls all other methods.
class GossipExchange {
 public:
  virtual ~GossipExchange() = default;

  // Prepares for a group of `ranks` ranks. Throws WireError if a state that was loaded does not
  // fit.
  virtual void begin(Floats params, int ranks) = 0;

  // Takes a message of rank `from`. It may swap the message's memory for other memory of the same
  // size. Throws WireError if the message does not belong to this kind of exchange.
  virtual void arrived(int from, const message::GossipMessage::Contents& contents,
                       message::GossipMessage& message) = 0;

  // The results of process_arrived().
  struct ArrivalResult {
    bool merged = false;   // whether params changed
    bool refused = false;  // whether the peer refused the exchange that this worker began
    // How many blocks arrived in quantized messages since the last call, and how many of them could
    // not be decoded because the models were too far apart.
    std::uint64_t coded_blocks = 0, blocks_out_of_range = 0;
  };
  // Merges the models that have arrived into params, and appends the answers to `out`. If
  // `may_send` is false, because earlier messages are still being sent, a later call gives the
  // answers.
  virtual ArrivalResult process_arrived(MutFloats params, bool may_send,
                                        std::vector<OutgoingMessage>& out) = 0;

  // Begins an exchange with `peer`; only while no message is being sent. Returns false if none can
  // begin now. The rounding errors of a quantized message are subtracted from params.
  virtual bool start(int peer, MutFloats params, std::vector<OutgoingMessage>& out) = 0;

  // Returns whether both workers of an exchange receive the other's model.
  virtual bool mutual() const = 0;
  // Returns the weight of this worker's model in the mean of all models, once all messages have
  // arrived.
  virtual double weight() const = 0;
  // Returns the factor of this worker's steps. The part of its weight that is in flight takes part
  // in no step, so that the rest must take longer ones (Assran et al. 2019).
  virtual double step_scale() const { return 1; }

  // The state as part of a checkpoint. load throws WireError if the state is damaged.
  virtual void save(base::ByteWriter& out) const = 0;
  virtual void load(base::ByteReader& in) = 0;
};

// `bits` is how many bits a parameter takes in a message: 32, 8 or 4.
std::unique_ptr<GossipExchange> make_push_sum(unsigned bits = 32);
std::unique_ptr<GossipExchange> make_pair_swap();

}  // namespace thinwire::strategy
