// Symmetric gossip: two workers exchange snapshots A and B of their models, and each moves by half
// the difference, x += (B - A) / 2, whatever it has become meanwhile. What one gains the other
// loses, so that the mean of all models stays, under any delay.
//
// A worker takes part in one exchange at a time: with several at once it would give away more than
// it has. A request that comes meanwhile is refused, so that nobody waits in a circle. Two workers
// that ask each other at the same time have what they asked for: each takes the other's request for
// the reply. Letters between two workers arrive in the order sent, so both see it the same way.
#include <mutex>
#include <utility>

#include "strategy/gossip_exchange.h"
#include "strategy/state.h"

namespace thinwire {
namespace {

constexpr int kNobody = -1;

class PairSwap final : public GossipExchange {
 public:
  PairSwap() { refusal_.write(Letter::Kind::refusal, 0); }

  void begin(Floats params, int) override {
    snapshot_.reserve(params.size());
    inbox_.reserve(params.size());
  }

  void arrived(int from, const Letter::Contents& contents, Letter& letter) override {
    if (contents.kind == Letter::Kind::push || contents.kind == Letter::Kind::coded_push) {
      throw WireError("gossip in pairs got a letter of another kind of exchange");
    }
    const std::lock_guard lock(mutex_);
    if (asked_ == from && answer_ == Answer::none) {
      take_answer(contents.kind, letter);
    } else if (contents.kind == Letter::Kind::request) {
      take_request(from, letter);
    } else {
      throw WireError("gossip in pairs got an answer to nothing that it asked");
    }
  }

  Attended attend(MutFloats params, bool may_send, std::vector<Dispatch>& out) override {
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
      snapshot_.write(Letter::Kind::reply, 0, params);
      out.push_back({std::exchange(asker_, kNobody), &snapshot_});
      move_by_half(params, snapshot_.model());
      attended.merged = true;
    }
    return attended;
  }

  bool start(int peer, MutFloats params, std::vector<Dispatch>& out) override {
    const std::lock_guard lock(mutex_);
    // Who was refused must learn it before it could take a request of ours for the answer.
    if (asked_ != kNobody || asker_ != kNobody || !refused_.empty()) return false;
    asked_ = peer;
    snapshot_.write(Letter::Kind::request, 0, params);
    out.push_back({peer, &snapshot_});
    return true;
  }

  bool mutual() const override { return true; }
  double weight() const override { return 1; }

  // Settled workers have no exchange open.
  void save(ByteWriter&) const override {}
  void load(ByteReader&) override {}

 private:
  enum class Answer { none, model, refused };

  void take_request(int from, Letter& letter) {
    if (asked_ != kNobody || asker_ != kNobody) {
      refused_.push_back(from);
    } else {
      asker_ = from;
      std::swap(inbox_, letter);
    }
  }
  void take_answer(Letter::Kind kind, Letter& letter) {
    answer_ = kind == Letter::Kind::refusal ? Answer::refused : Answer::model;
    if (answer_ == Answer::model) std::swap(inbox_, letter);
  }
  void move_by_half(MutFloats params, Floats snapshot) {
    const Floats other = inbox_.model();
    for (std::size_t i = 0; i < params.size(); ++i) params[i] += 0.5f * (other[i] - snapshot[i]);
  }

  Letter refusal_;
  Letter snapshot_;  // what this worker sent of itself in the exchange that is open

  std::mutex mutex_;     // of what follows
  Letter inbox_;         // what it got
  int asked_ = kNobody;  // whom this worker asked
  Answer answer_ = Answer::none;
  int asker_ = kNobody;       // who asked this worker
  std::vector<int> refused_;  // who is to be told so
};

}  // namespace

std::unique_ptr<GossipExchange> make_pair_swap() { return std::make_unique<PairSwap>(); }

}  // namespace thinwire
