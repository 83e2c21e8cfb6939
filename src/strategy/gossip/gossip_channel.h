// Messages between workers that do not wait for each other: a task receives whatever comes from
// whomever, another sends what the training thread hands it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "strategy/gossip/gossip_exchange.h"
#include "thinwire/transport.h"

namespace thinwire::strategy {

// The task that receives does nothing else, so a message is always taken and no send waits longer
// than its bytes need.
class GossipChannel {
 public:
  // Called by the receiving task for every message with a model and every refusal.
  using Arrived = std::function<void(int from, const message::GossipMessage::Contents&,
                                     message::GossipMessage&)>;

  explicit GossipChannel(Arrived arrived) : arrived_(std::move(arrived)) {}
  ~GossipChannel();

  // By all ranks, once; models have numel elements.
  void open(Transport& wire, std::size_t numel);

  // The rest is for the training thread.
  void start_receiving();
  bool receiving() const noexcept { return receiver_ != nullptr; }
  // Whether all messages handed over so far have left.
  bool idle();
  // While idle.
  void send(std::vector<OutgoingMessage> messages);
  // Throws what made a task fail.
  void rethrow_failure();
  // By all ranks together, which send nothing meanwhile: afterwards every message has arrived, and
  // none is received until start_receiving().
  void drain();

 private:
  void receive();
  int neighbour() const { return (wire_->rank() + 1) % wire_->size(); }

  Arrived arrived_;
  Transport* wire_ = nullptr;
  std::unique_ptr<Transport> lane_;  // for farewells
  std::unique_ptr<Transport> in_, out_;
  message::GossipMessage incoming_;
  std::vector<std::uint64_t> sent_;  // to each rank
  std::uint64_t received_ = 0;
  std::atomic<bool> abandoned_{false};
  std::vector<OutgoingMessage> messages_;  // of the task that sends

  std::unique_ptr<Task> sender_, receiver_;  // last: they use the members above
};

}  // namespace thinwire::strategy
