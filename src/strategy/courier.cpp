#include "strategy/courier.h"

#include <optional>

#include "thinwire/collective.h"
#include "transport/sender.h"

namespace thinwire {
namespace {

constexpr Tag kTag{1};

Letter word(Letter::Kind kind, std::uint64_t number = 0) {
  Letter letter;
  letter.write(kind, number);
  return letter;
}

}  // namespace

// A worker that fails has a task that waits for letters. Nothing wakes it but a letter, so a
// neighbour is asked for one. Should that one have failed, or be silent, then the transport, which
// has seen that or is about to, ends the wait.
Courier::~Courier() {
  if (!receiver_ || receiver_->finished()) return;
  abandoned_ = true;
  sender_.reset();
  try {
    lane_->send(neighbour(), kTag, word(Letter::Kind::wake).bytes());
  } catch (const std::exception&) {
    // The failure that brought us here is on its way to the caller.
  }
}

void Courier::open(Transport& wire, std::size_t numel) {
  wire_ = &wire;
  lane_ = wire.lane();
  in_ = lane_->twin();
  out_ = lane_->twin();
  // Silence is no failure here: nobody owes anybody a letter. What another lane finds out about a
  // peer ends this wait, too.
  in_->set_timeout(Transport::kLongestTimeout);
  incoming_.reserve(numel);
  sent_.assign(static_cast<std::size_t>(wire.size()), 0);
}

void Courier::start_receiving() {
  receiver_ = wire_->launch([this] { receive(); });
}

void Courier::receive() {
  std::optional<std::uint64_t> expected;
  while (!expected || received_ < *expected) {
    const Received got = in_->recv(kAnyRank, kTag, incoming_.room());
    if (abandoned_) return;
    Letter::Contents contents;
    name_sender(*in_, got.from, [&] { contents = incoming_.read(got.bytes); });
    if (contents.kind == Letter::Kind::wake) {
      in_->send(got.from, kTag, word(Letter::Kind::last).bytes());
    } else if (contents.kind == Letter::Kind::last) {
      expected = contents.number;
    } else {
      name_sender(*in_, got.from, [&] { arrived_(got.from, contents, incoming_); });
      ++received_;
    }
  }
}

bool Courier::idle() {
  if (!sender_) return true;
  if (!sender_->finished()) return false;
  sender_->join();
  sender_.reset();
  return true;
}

void Courier::send(std::vector<Dispatch> letters) {
  letters_ = std::move(letters);
  for (const Dispatch& each : letters_) ++sent_[static_cast<std::size_t>(each.to)];
  sender_ = wire_->launch([this] {
    for (const Dispatch& each : letters_) out_->send(each.to, kTag, each.letter->bytes());
  });
}

void Courier::rethrow_failure() {
  if (receiver_ && receiver_->finished()) receiver_->join();
  idle();
}

// Everybody learns how many letters were sent to whom, and tells its neighbour when to stop
// waiting. That is a wait without a deadline, so it begins when all ranks have done so: then it
// takes no longer than the letters.
void Courier::drain() {
  if (sender_) sender_->join();
  sender_.reset();
  std::vector<std::uint64_t> sent = sent_;
  allreduce_sum(*wire_, std::span(sent));
  const std::uint64_t expected = sent[static_cast<std::size_t>(neighbour())];
  lane_->send(neighbour(), kTag, word(Letter::Kind::last, expected).bytes());
  barrier(*wire_);
  receiver_->join();
  receiver_.reset();
  // Or a letter that is sent now could be taken for one of those that are still missing elsewhere.
  barrier(*wire_);
}

}  // namespace thinwire
