// Symmetric gossip: two workers exchange snapshots A and B of their models, and each moves by half
// the difference, x += (B - A) / 2, also if it has made steps meanwhile. The two moves add up to 0,
// so that the mean of all models stays the same under any delay.
//
// A worker takes part in one exchange at a time, because several at once could move it too far. A
// request that arrives meanwhile is refused, so that workers cannot wait for each other in a
// circle. If two workers send each other a request at the same time, each takes the other's request
// as the reply. Messages between two workers arrive in the order in which they were sent, so that
// both workers decide the same.
#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "strategy/common/state.h"
#include "strategy/gossip/gossip_exchange.h"

namespace thinwire::strategy {
namespace {

constexpr int kNoRank = -1;

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
      throw WireError(fmt::format("gossip message: wrong kind for exchange=pair (kind {})",
                                  static_cast<int>(contents.kind)));
    }
    const std::lock_guard lock(mutex_);
    if (asked_ == from && answer_ == Answer::none) {
      take_answer(contents.kind, message);
    } else if (contents.kind == message::GossipMessage::Kind::request) {
      take_request(from, message);
    } else {
      throw WireError(fmt::format("gossip message: an answer without a request (kind {})",
                                  static_cast<int>(contents.kind)));
    }
  }

  ArrivalResult process_arrived(MutFloats params, bool may_send,
                                std::vector<OutgoingMessage>& out) override {
    const std::lock_guard lock(mutex_);
    ArrivalResult result;
    if (answer_ != Answer::none) {
      result.refused = answer_ == Answer::refused;
      result.merged = answer_ == Answer::model;
      if (result.merged) move_by_half(params, snapshot_.model());
      answer_ = Answer::none;
      asked_ = kNoRank;
    }
    if (!may_send) return result;
    for (const int peer : refused_) out.push_back({peer, &refusal_});
    refused_.clear();
    if (requester_ != kNoRank) {
      snapshot_.write(message::GossipMessage::Kind::reply, 0, params);
      out.push_back({std::exchange(requester_, kNoRank), &snapshot_});
      move_by_half(params, snapshot_.model());
      result.merged = true;
    }
    return result;
  }

  bool start(int peer, MutFloats params, std::vector<OutgoingMessage>& out) override {
    const std::lock_guard lock(mutex_);
    // A refusal must be sent before a request to the same worker, which would take the request as
    // the answer.
    if (asked_ != kNoRank || requester_ != kNoRank || !refused_.empty()) return false;
    asked_ = peer;
    snapshot_.write(message::GossipMessage::Kind::request, 0, params);
    out.push_back({peer, &snapshot_});
    return true;
  }

  bool mutual() const override { return true; }
  double weight() const override { return 1; }

  // After quiesce() no exchange is open, so that there is no state.
  void save(base::ByteWriter&) const override {}
  void load(base::ByteReader&) override {}

 private:
  enum class Answer { none, model, refused };

  void take_request(int from, message::GossipMessage& message) {
    if (asked_ != kNoRank || requester_ != kNoRank) {
      refused_.push_back(from);
    } else {
      requester_ = from;
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
  message::GossipMessage snapshot_;  // the model that this worker sent in the open exchange

  std::mutex mutex_;              // guards the members below
  message::GossipMessage inbox_;  // the model that this worker received
  int asked_ = kNoRank;           // the rank to which this worker sent a request
  Answer answer_ = Answer::none;
  int requester_ = kNoRank;   // the rank that sent a request to this worker
  std::vector<int> refused_;  // ranks to which a refusal must be sent
};

}  // namespace

std::unique_ptr<GossipExchange> make_pair_swap() { return std::make_unique<PairSwap>(); }

}  // namespace thinwire::strategy
