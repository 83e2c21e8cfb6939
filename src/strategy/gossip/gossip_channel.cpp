#include "strategy/gossip/gossip_channel.h"

#include <optional>

#include "thinwire/collective.h"
#include "transport/name_sender.h"

namespace thinwire::strategy {
namespace {

constexpr Tag kTag{1};

// Returns a message without a model.
message::GossipMessage control_message(message::GossipMessage::Kind kind,
                                       std::uint64_t number = 0) {
  message::GossipMessage message;
  message.write(kind, number);
  return message;
}

}  // namespace

// When a worker fails, its receiving task still waits for messages, and only a message can wake it.
// So this worker asks its neighbour for one. If the neighbour has failed or is silent, the
// transport notices that and ends the wait.
GossipChannel::~GossipChannel() {
  if (!receiver_ || receiver_->finished()) return;
  abandoned_ = true;
  sender_.reset();
  try {
    lane_->send(neighbour(), kTag, control_message(message::GossipMessage::Kind::wake).bytes());
  } catch (const std::exception&) {
    // The caller already gets the failure because of which the channel is destroyed.
  }
}

void GossipChannel::open(Transport& wire, std::size_t numel) {
  wire_ = &wire;
  lane_ = wire.lane();
  in_ = lane_->clone_handle();
  out_ = lane_->clone_handle();
  // Silence is no failure here, because no rank has to send. If another lane finds that a peer has
  // failed, the transport ends this wait, too.
  in_->set_timeout(Transport::kLongestTimeout);
  incoming_.reserve(numel);
  sent_.assign(static_cast<std::size_t>(wire.size()), 0);
  sender_ = std::make_unique<transport::BackgroundWorker>(wire.runtime());
}

void GossipChannel::start_receiving() {
  receiver_ = wire_->launch([this] { receive(); });
}

void GossipChannel::receive() {
  std::optional<std::uint64_t> expected;
  while (!expected || received_ < *expected) {
    const Received got = in_->recv(kAnyRank, kTag, incoming_.room());
    if (abandoned_) return;
    message::GossipMessage::Contents contents;
    transport::name_sender(*in_, got.from, [&] { contents = incoming_.read(got.bytes); });
    if (contents.kind == message::GossipMessage::Kind::wake) {
      in_->send(got.from, kTag, control_message(message::GossipMessage::Kind::last).bytes());
    } else if (contents.kind == message::GossipMessage::Kind::last) {
      expected = contents.number;
    } else {
      transport::name_sender(*in_, got.from, [&] { arrived_(got.from, contents, incoming_); });
      ++received_;
    }
  }
}

bool GossipChannel::idle() {
  if (!sender_->finished(last_send_)) return false;
  sender_->wait(last_send_);  // returns at once, or throws what the job threw
  return true;
}

void GossipChannel::send(std::vector<OutgoingMessage> messages) {
  messages_ = std::move(messages);
  for (const OutgoingMessage& each : messages_) ++sent_[static_cast<std::size_t>(each.to)];
  last_send_ = sender_->post([this] { send_all(); });
}

void GossipChannel::send_all() {
  for (const OutgoingMessage& each : messages_) out_->send(each.to, kTag, each.message->bytes());
}

void GossipChannel::rethrow_failure() {
  if (receiver_ && receiver_->finished()) receiver_->join();
  idle();
}

// Ranks add up how many messages were sent to each rank, and each rank notifies its neighbour after
// how many messages the receiving task must end. The wait for that task has no deadline of its own,
// so it begins after a barrier: then it takes no longer than the messages that are still on their
// way.
void GossipChannel::drain() {
  sender_->wait(last_send_);
  std::vector<std::uint64_t> sent = sent_;
  allreduce_sum(*wire_, std::span(sent));
  const std::uint64_t expected = sent[static_cast<std::size_t>(neighbour())];
  lane_->send(neighbour(), kTag,
              control_message(message::GossipMessage::Kind::last, expected).bytes());
  barrier(*wire_);
  receiver_->join();
  receiver_.reset();
  // Without this barrier, another rank that still counts its last messages could count one that
  // this rank sends after drain().
  barrier(*wire_);
}

}  // namespace thinwire::strategy
