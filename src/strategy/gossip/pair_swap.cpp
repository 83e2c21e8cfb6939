// Symmetric gossip: two workers exchange snapshots A and B of their models, and each moves by half
// the difference, x += (B - A) / 2, whatever it has become meanwhile. What one gains the other
// loses, so that the mean of all models stays, under any delay.
//
// A worker takes part in one exchange at a time: with several at once it would give away more than
// it has. A request that comes meanwhile is refused, so that nobody waits in a circle. Two workers
// that ask each other at the same time have what they asked for: each takes the other's request for
// the reply. Messages between two workers arrive in the order sent, so both see it the same way.
#include <mutex>
#include <utility>

#include "strategy/common/state.h"
#include "strategy/gossip/gossip_exchange.h"

namespace thinwire::strategy {
namespace {

constexpr int kNobody = -1;

class PairSwap final : public GossipExchange {
 public:
  PairSwap() { refusal_.write(message::GossipMessage::Kind::refusal, 0); }

  void begin(Floats params, int) override {
    snapshot_.reserve(params.size());
    inbox_.reserve(params.size());
  }

  void arrived(int from, const message::GossipMessage::Contents& contents,
               message::GossipMessage& message) override {
    if (contents.kind == message::GossipMessage::Kind::push ||
        contents.kind == message::GossipMessage::Kind::coded_push) {
      throw WireError("gossip in pairs got a message of another kind of exchange");
    }
    const std::lock_guard lock(mutex_);
    if (asked_ == from && answer_ == Answer::none) {
      take_answer(contents.kind, message);
    } else if (contents.kind == message::GossipMessage::Kind::request) {
      take_request(from, message);
    } else {
      throw WireError("gossip in pairs got an answer to nothing that it asked");
    }
  }

  Attended attend(MutFloats params, bool may_send, std::vector<OutgoingMessage>& out) override {
    const std::lock_guard lock(mutex_);
    Attended attended;
    if (answer_ != Answer::none) {
      attended.refused = answer_ == Answer::refused;
      attended.merged = answer_ == Answer::model;
      if (attended.merged) move_by_half(params, snapshot_.model());
      answer_ = Answer::none;
      asked_ = kNobody;
    }
    if (!may_send) return attended;
    for (const int peer : refused_) out.push_back({peer, &refusal_});
    refused_.clear();
    if (asker_ != kNobody) {
      snapshot_.write(message::GossipMessage::Kind::reply, 0, params);
      out.push_back({std::exchange(asker_, kNobody), &snapshot_});
      move_by_half(params, snapshot_.model());
      attended.merged = true;
    }
    return attended;
  }

  bool start(int peer, MutFloats params, std::vector<OutgoingMessage>& out) override {
    const std::lock_guard lock(mutex_);
    // Who was refused must learn it before it could take a request of ours for the answer.
    if (asked_ != kNobody || asker_ != kNobody || !refused_.empty()) return false;
    asked_ = peer;
    snapshot_.write(message::GossipMessage::Kind::request, 0, params);
    out.push_back({peer, &snapshot_});
    return true;
  }

  bool mutual() const override { return true; }
  double weight() const override { return 1; }

  // Settled workers have no exchange open.
  void save(base::ByteWriter&) const override {}
  void load(base::ByteReader&) override {}

 private:
  enum class Answer { none, model, refused };

  void take_request(int from, message::GossipMessage& message) {
    if (asked_ != kNobody || asker_ != kNobody) {
      refused_.push_back(from);
    } else {
      asker_ = from;
      std::swap(inbox_, message);
    }
  }
  void take_answer(message::GossipMessage::Kind kind, message::GossipMessage& message) {
    answer_ = kind == message::GossipMessage::Kind::refusal ? Answer::refused : Answer::model;
    if (answer_ == Answer::model) std::swap(inbox_, message);
  }
  void move_by_half(MutFloats params, Floats snapshot) {
    const Floats other = inbox_.model();
    for (std::size_t i = 0; i < params.size(); ++i) params[i] += 0.5f * (other[i] - snapshot[i]);
  }

  message::GossipMessage refusal_;
  message::GossipMessage snapshot_;  // what this worker sent of itself in the exchange that is open

  std::mutex mutex_;              // of what follows
  message::GossipMessage inbox_;  // what it got
  int asked_ = kNobody;           // whom this worker asked
  Answer answer_ = Answer::none;
  int asker_ = kNobody;       // who asked this worker
  std::vector<int> refused_;  // who is to be sent so
};

}  // namespace

std::unique_ptr<GossipExchange> make_pair_swap() { return std::make_unique<PairSwap>(); }

}  // namespace thinwire::strategy
