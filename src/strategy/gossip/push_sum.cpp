// Push-sum (Kempe et al. 2003; GoSGD, Blot et al. 2016): every model has a weight. The sender of a
// message keeps half of its weight and sends the other half with its model. The receiver moves
// towards that model by its share of the weight. The sum of all weights never changes, and neither
// does the weighted mean of all models, including those in flight. Messages are never answered.
//
// A quantized message (SwarmSGD, Nadiradze et al. 2021) contains y = x + e with a rounding error e,
// which the sender subtracts from its own model: both sides have half of the weight, so that the
// mean stays.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "strategy/common/state.h"
#include "strategy/gossip/gossip_exchange.h"
#include "strategy/gossip/model_coding.h"

namespace thinwire::strategy {
namespace {

// Weights are integers, so that their sum is exact. A worker that sends far more often than
// it receives gets too little weight to matter, and sends nothing until it receives a message.
constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;
constexpr std::uint64_t kLightest = std::uint64_t{1} << 8;

// A step is multiplied by at most this factor, and divided by at most this factor: the weight of a
// worker may be very small for a short time.
constexpr double kLongestStep = 4;

double share(std::uint64_t part, std::uint64_t rest) {
  return static_cast<double>(part) / static_cast<double>(part + rest);
}

void move_towards(MutFloats from, Floats to, double share) {
  const auto part = static_cast<float>(share);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] += part * (to[i] - from[i]);
}

class PushSum final : public GossipExchange {
 public:
  explicit PushSum(unsigned bits) {
    if (bits < 32) coding_.emplace(bits);
  }

  void begin(Floats params, int ranks) override {
    const std::size_t numel = params.size();
    all_ = static_cast<std::uint64_t>(ranks) * kWhole;
    if (weight_ > all_ || inbox_weight_ > all_ - weight_) {
      throw WireError(fmt::format(
          "gossip: its state has too much weight ({} + {}; all workers together have {})", weight_,
          inbox_weight_, all_));
    }
    outbox_.reserve(numel);
    inbox_.reserve(numel);
    if (coding_) coding_->begin(params);
    if (restored_.empty()) return;
    prepare(restored_, numel, "inbox");
    inbox_.write(message::GossipMessage::Kind::push, 0, restored_);
    restored_.clear();
  }

  // There is one inbox: models that arrive before the next step are merged with each other there.
  void arrived(int, const message::GossipMessage::Contents& contents,
               message::GossipMessage& message) override {
    const bool coded = contents.kind == message::GossipMessage::Kind::coded_push;
    if ((contents.kind != message::GossipMessage::Kind::push && !coded) || contents.number == 0) {
      throw WireError(
          fmt::format("gossip message: wrong kind for exchange=pushsum (kind {}, weight {})",
                      static_cast<int>(contents.kind), contents.number));
    }
    if (coded && !coding_) {
      throw WireError("gossip message: the model is quantized (this worker has bits=32)");
    }
    const std::uint64_t weight = contents.number;
    const std::lock_guard lock(mutex_);
    if (weight > all_ - inbox_weight_) {
      throw WireError(
          fmt::format("gossip message: too much weight ({} + {}; all workers together have {})",
                      weight, inbox_weight_, all_));
    }
    const double part = share(weight, inbox_weight_);
    if (coded) {
      coding_->check(contents.coded);
      coding_->read(contents.coded, static_cast<float>(part), inbox_.model());
    } else {
      if (coding_) coding_->observe(contents.model);
      if (inbox_weight_ == 0) {
        std::swap(inbox_, message);
      } else {
        move_towards(inbox_.model(), contents.model, part);
      }
    }
    inbox_weight_ += weight;
  }

  ArrivalResult process_arrived(MutFloats params, bool, std::vector<OutgoingMessage>&) override {
    const std::lock_guard lock(mutex_);
    ArrivalResult result;
    result.merged = inbox_weight_ > 0;
    if (result.merged) {
      move_towards(params, inbox_.model(), share(inbox_weight_, weight_));
      weight_ += std::exchange(inbox_weight_, 0);
    }
    if (coding_) {
      const ModelCoding::Count count = coding_->take_count();
      result.coded_blocks = count.blocks;
      result.blocks_out_of_range = count.out_of_range;
      coding_->stepped(params);
    }
    return result;
  }

  bool start(int peer, MutFloats params, std::vector<OutgoingMessage>& out) override {
    if (weight_ < kLightest) return false;
    const std::uint64_t half = weight_ / 2;
    weight_ -= half;
    if (!write_coded(half, params)) outbox_.write(message::GossipMessage::Kind::push, half, params);
    out.push_back({peer, &outbox_});
    return true;
  }

  bool mutual() const override { return false; }
  double weight() const override { return static_cast<double>(weight_); }
  double step_scale() const override {
    const double share = static_cast<double>(weight_) / static_cast<double>(kWhole);
    return std::clamp(1 / share, 1 / kLongestStep, kLongestStep);
  }

  void save(base::ByteWriter& out) const override {
    const std::lock_guard lock(mutex_);
    out.put(weight_);
    out.put(inbox_weight_);
    put_floats(out, inbox_weight_ == 0 ? Floats() : inbox_.model());
    if (coding_) coding_->save(out);
  }
  void load(base::ByteReader& in) override {
    weight_ = in.get<std::uint64_t>();
    inbox_weight_ = in.get<std::uint64_t>();
    restored_ = get_floats(in);
    if (coding_) coding_->load(in);
    if (weight_ == 0 || (inbox_weight_ == 0) != restored_.empty()) {
      throw WireError(fmt::format(
          "gossip: its state is damaged (weight {}, inbox of weight {} with {} elements)", weight_,
          inbox_weight_, restored_.size()));
    }
  }

 private:
  bool write_coded(std::uint64_t weight, MutFloats params) {
    if (!coding_) return false;
    const std::lock_guard lock(mutex_);
    return coding_->write(params, outbox_.write_coded(weight, coding_->bytes()));
  }

  std::uint64_t weight_ = kWhole, all_ = 0;
  message::GossipMessage outbox_;
  std::vector<float> restored_;

  mutable std::mutex mutex_;  // guards the members below
  message::GossipMessage inbox_;
  std::uint64_t inbox_weight_ = 0;  // 0: empty
  std::optional<ModelCoding> coding_;
};

}  // namespace

std::unique_ptr<GossipExchange> make_push_sum(unsigned bits) {
  return std::make_unique<PushSum>(bits);
}

}  // namespace thinwire::strategy
