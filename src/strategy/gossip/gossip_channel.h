// Messages between workers that do not wait for each other: one task receives the messages of all
// ranks, another one sends the messages of the training thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "strategy/gossip/gossip_exchange.h"
#include "thinwire/transport.h"
#include "transport/background_worker.h"

namespace thinwire::strategy {

// The task that receives does nothing else, so a message is always received and no send takes
// longer than the network needs for its bytes.
class GossipChannel {
 public:
  // The receiving task calls it for every message that has a model or refuses one.
  using Arrived = std::function<void(int from, const message::GossipMessage::Contents&,
                                     message::GossipMessage&)>;

  explicit GossipChannel(Arrived arrived) : arrived_(std::move(arrived)) {}
  // Ends both tasks, also while a message is being sent.
  ~GossipChannel();

  // All ranks call it, once. Models have `numel` elements. The transport must outlive the channel.
  void open(Transport& wire, std::size_t numel);

  // The methods below are for the training thread.

  // Launches the receiving task. It must not be running.
  void start_receiving();
  // Returns whether the receiving task was started and not drained since.
  bool receiving() const noexcept { return receiver_ != nullptr; }
  // Returns whether all messages of the last send() have left. Throws if one could not be sent.
  bool idle();
  // Sends the messages in the background; only while idle(). The objects that they point to must
  // not change until idle() is true again.
  void send(std::vector<OutgoingMessage> messages);
  // Throws what made a task fail, if one has failed. Never waits for a message.
  void rethrow_failure();
  // All ranks call it together and send nothing meanwhile. When it returns, every message has
  // arrived, and the receiving task has ended.
  void drain();

 private:
  void receive();
  void send_all();
  int neighbour() const { return (wire_->rank() + 1) % wire_->size(); }

  Arrived arrived_;
  Transport* wire_ = nullptr;
  std::unique_ptr<Transport> lane_;  // for the messages that end the receiving task
  std::unique_ptr<Transport> in_, out_;
  message::GossipMessage incoming_;
  std::vector<std::uint64_t> sent_;  // messages to each rank
  std::uint64_t received_ = 0;
  std::atomic<bool> abandoned_{false};
  std::vector<OutgoingMessage> messages_;  // the sender's, while it is not idle
  transport::BackgroundWorker::Ticket last_send_ = 0;

  // Last, because their tasks use the members above.
  std::unique_ptr<transport::BackgroundWorker> sender_;
  std::unique_ptr<Task> receiver_;
};

}  // namespace thinwire::strategy
