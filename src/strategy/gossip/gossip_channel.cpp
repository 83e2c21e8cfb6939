#include "strategy/gossip/gossip_channel.h"

#include <optional>

#include "thinwire/collective.h"
#include "transport/name_sender.h"

namespace thinwire::strategy {
namespace {

constexpr Tag kTag{1};

message::GossipMessage word(message::GossipMessage::Kind kind, std::uint64_t number = 0) {
  message::GossipMessage message;
  message.write(kind, number);
  return message;
}

}  // namespace

// A worker that fails has a task that waits for messages. Nothing wakes it but a message, so a
// neighbour is asked for one. Should that one have failed, or be silent, then the transport, which
// has seen that or is about to, ends the wait.
GossipChannel::~GossipChannel() {
  if (!receiver_ || receiver_->finished()) return;
  abandoned_ = true;
  sender_.reset();
  try {
    lane_->send(neighbour(), kTag, word(message::GossipMessage::Kind::wake).bytes());
  } catch (const std::exception&) {
    // The failure that brought us here is on its way to the caller.
  }
}

void GossipChannel::open(Transport& wire, std::size_t numel) {
  wire_ = &wire;
  lane_ = wire.lane();
  in_ = lane_->clone_handle();
  out_ = lane_->clone_handle();
  // Silence is no failure here: nobody owes anybody a message. What another lane finds out about a
  // peer ends this wait, too.
  in_->set_timeout(Transport::kLongestTimeout);
  incoming_.reserve(numel);
  sent_.assign(static_cast<std::size_t>(wire.size()), 0);
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
      in_->send(got.from, kTag, word(message::GossipMessage::Kind::last).bytes());
    } else if (contents.kind == message::GossipMessage::Kind::last) {
      expected = contents.number;
    } else {
      transport::name_sender(*in_, got.from, [&] { arrived_(got.from, contents, incoming_); });
      ++received_;
    }
  }
}

bool GossipChannel::idle() {
  if (!sender_) return true;
  if (!sender_->finished()) return false;
  sender_->join();
  sender_.reset();
  return true;
}

void GossipChannel::send(std::vector<OutgoingMessage> messages) {
  messages_ = std::move(messages);
  for (const OutgoingMessage& each : messages_) ++sent_[static_cast<std::size_t>(each.to)];
  sender_ = wire_->launch([this] {
    for (const OutgoingMessage& each : messages_) out_->send(each.to, kTag, each.message->bytes());
  });
}

void GossipChannel::rethrow_failure() {
  if (receiver_ && receiver_->finished()) receiver_->join();
  idle();
}

// Everybody learns how many messages were sent to whom, and tells its neighbour when to stop
// waiting. That is a wait without a deadline, so it begins when all ranks have done so: then it
// takes no longer than the messages.
void GossipChannel::drain() {
  if (sender_) sender_->join();
  sender_.reset();
  std::vector<std::uint64_t> sent = sent_;
  allreduce_sum(*wire_, std::span(sent));
  const std::uint64_t expected = sent[static_cast<std::size_t>(neighbour())];
  lane_->send(neighbour(), kTag, word(message::GossipMessage::Kind::last, expected).bytes());
  barrier(*wire_);
  receiver_->join();
  receiver_.reset();
  // Or a message that is sent now could be taken for one of those that are still missing elsewhere.
  barrier(*wire_);
}

}  // namespace thinwire::strategy
