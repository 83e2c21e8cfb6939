// Gossip: every worker trains by itself and sometimes sends its model to one other worker. It does
// so when the model has changed enough (Ho, Wu and Liu, "Adaptive communication for distributed
// deep learning on commodity GPU cluster", CCGRID 2018), at the rate of a budget of messages, or in
// a fixed period. docs/asynchronous.md describes the rules.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number.h"
#include "base/spec.h"
#include "kernel/finite.h"
#include "strategy/common/consensus.h"
#include "strategy/common/gradient_guard.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/progress_rounds.h"
#include "strategy/common/state.h"
#include "strategy/gossip/gossip_channel.h"
#include "strategy/gossip/gossip_exchange.h"
#include "strategy/gossip/gossip_peers.h"
#include "strategy/gossip/gossip_trigger.h"
#include "strategy/gossip/own_movement.h"

namespace thinwire::strategy {
namespace {

constexpr std::uint32_t kStateVersion = 5;

class Gossip final : public ModelStrategy {
 public:
  Gossip(const GossipTrigger::Options& trigger, std::unique_ptr<GossipExchange> exchange,
         PeerRule peers, bool quantized)
      : quantized_(quantized),
        trigger_(trigger),
        peers_(peers),
        exchange_(std::move(exchange)),
        channel_([this](int from, const message::GossipMessage::Contents& contents,
                        message::GossipMessage& message) {
          exchange_->arrived(from, contents, message);
        }) {}

  void begin(const StrategyContext& context, Floats params, std::uint64_t) override {
    trigger_.begin(context.run);
    movement_.begin(params);
    exchange_->begin(params, context.wire.size());
    rounds_.open(context.wire, context.run.samples);
    channel_.open(context.wire, params.size());
  }

  void before_step(const GradientStep& step) override { guard_.limit(step, 1); }

  double step_scale() const override { return exchange_->step_scale(); }

  void after_step(const ModelStep& step) override {
    if (!channel_.receiving()) channel_.start_receiving();
    if (!rounds_.started()) rounds_.start(samples_, global_samples_);
    channel_.rethrow_failure();
    rounds_.stepped(step.own_time, step.samples);
    ++steps_;
    std::vector<OutgoingMessage> messages;
    const bool idle = channel_.idle();
    timed_codec(step, [&] { exchange_models(step, idle, messages); });
    if (!messages.empty()) send(std::move(messages));
  }

  void quiesce(const StrategyContext&, MutFloats params) override {
    rounds_.stop();
    samples_ = std::max(samples_, rounds_.samples());
    global_samples_ = global_samples();
    // Requests arrive first, then the answers to them.
    for (int pass = 0; pass < (exchange_->mutual() ? 2 : 1); ++pass) {
      if (!channel_.receiving()) channel_.start_receiving();
      channel_.drain();
      std::vector<OutgoingMessage> answers;
      if (exchange_->mutual()) process_arrived(params, true, answers);
      if (!answers.empty()) send(std::move(answers));
    }
  }

  void end(const StrategyContext& context, MutFloats params) override {
    quiesce(context, params);
    std::vector<OutgoingMessage> nothing;
    process_arrived(params, false, nothing);
    agree_on_mean(context, params, exchange_->weight());
  }

  CostProfile cost_profile() const override {
    return {.quantizes_later = quantized_,
            .quantized_messages = static_cast<double>(coded_blocks_),
            .exchanges = static_cast<double>(models_sent_),
            .by_message = true};
  }

  SyncMode sync_mode() const override { return SyncMode::asynchronous; }
  std::uint64_t global_samples() const override {
    return std::max(global_samples_, rounds_.global_samples());
  }

  std::vector<Metric> metrics() const override {
    std::vector<Metric> out = {{"messages_per_worker_step", static_cast<double>(models_sent_),
                                static_cast<double>(steps_)}};
    trigger_.report(out);
    guard_.report(out);
    out.push_back({"refused", static_cast<double>(refused_)});
    out.push_back({"blocks_out_of_range", static_cast<double>(blocks_out_of_range_),
                   static_cast<double>(coded_blocks_)});
    return out;
  }

  void save(Payload& out) const override {
    base::ByteWriter writer(out);
    writer.put(kStateVersion);
    for (const std::uint64_t number : {samples_, global_samples_, turn_}) writer.put(number);
    trigger_.save(writer);
    guard_.save(writer);
    put_floats(writer, movement_.moved());
    exchange_->save(writer);
  }

  void load(Bytes in) override {
    base::ByteReader reader(in, "the state of gossip");
    expect_version(reader, kStateVersion, "gossip");
    for (std::uint64_t* number : {&samples_, &global_samples_, &turn_}) {
      *number = reader.get<std::uint64_t>();
    }
    trigger_.load(reader);
    guard_.load(reader);
    movement_.restore(get_floats(reader));
    exchange_->load(reader);
    reader.expect_end();
  }

 private:
  // Merges models that have arrived and starts an exchange if one is due. The merge comes first, so
  // that the model that is sent includes those that have arrived.
  void exchange_models(const ModelStep& step, bool idle, std::vector<OutgoingMessage>& messages) {
    movement_.stepped(step.params);
    if (!std::isfinite(movement_.length())) rounds_.report_not_finite();
    process_arrived(step.params, idle, messages);
    bool started = false;
    if (trigger_.due(movement_, step.learning_rate)) {
      const bool finite = kernel::all_finite(step.params);
      if (!finite) rounds_.report_not_finite();
      started = finite && idle && messages.empty() && start(step, messages);
    }
    trigger_.sent(started);
  }

  void process_arrived(MutFloats params, bool may_send, std::vector<OutgoingMessage>& messages) {
    const GossipExchange::ArrivalResult result =
        exchange_->process_arrived(params, may_send, messages);
    if (result.merged) movement_.merged(params);
    coded_blocks_ += result.coded_blocks;
    blocks_out_of_range_ += result.blocks_out_of_range;
    if (!result.refused) return;
    trigger_.failed();
    ++refused_;
  }

  bool start(const ModelStep& step, std::vector<OutgoingMessage>& messages) {
    const int peer = gossip_peer(peers_, exchange_->mutual(), step.run.seed, turn_,
                                 step.wire.rank(), step.wire.size());
    if (!exchange_->start(peer, step.params, messages)) return false;
    ++turn_;
    movement_.merged(step.params);  // a quantized message subtracts its rounding errors
    movement_.sent();
    return true;
  }

  void send(std::vector<OutgoingMessage> messages) {
    for (const OutgoingMessage& each : messages) models_sent_ += each.message->has_model() ? 1 : 0;
    channel_.send(std::move(messages));
  }

  bool quantized_;  // whether messages are quantized once the distances of models are known
  GossipTrigger trigger_;
  PeerRule peers_;
  OwnMovement movement_;
  GradientGuard guard_;
  std::uint64_t turn_ = 0;  // how many exchanges this worker has started
  std::uint64_t steps_ = 0, models_sent_ = 0, refused_ = 0;
  std::uint64_t coded_blocks_ = 0, blocks_out_of_range_ = 0;
  std::uint64_t samples_ = 0, global_samples_ = 0;  // while no rounds are going on
  std::unique_ptr<GossipExchange> exchange_;
  ProgressRounds rounds_;  // only reports progress: its rounds have no other work
  GossipChannel channel_;  // last: its tasks use the exchange
};

}  // namespace

std::unique_ptr<Strategy> make_gossip(base::Spec& spec) {
  static constexpr std::string_view kTriggers[] = {"change", "budget", "period"};
  static constexpr std::string_view kExchanges[] = {"pushsum", "pair"};
  static constexpr std::string_view kPeers[] = {"exp", "random", "ring"};
  static constexpr std::string_view kBits[] = {"auto", "4", "8", "32"};
  using Rule = GossipTrigger::Rule;
  GossipTrigger::Options options;
  const std::string rule = spec.choice("trigger", kTriggers);
  options.rule = rule == "change" ? Rule::change : rule == "budget" ? Rule::budget : Rule::period;
  options.kappa = spec.number("kappa", options.kappa, 0, 1e9);
  options.budget = spec.number("budget", 0.08, 1e-4, 1);
  options.period = static_cast<std::uint64_t>(spec.integer("period", 1, 1, 1'000'000));
  const bool pairs = spec.choice("exchange", kExchanges) == "pair";
  const std::string peers = spec.choice("peers", kPeers);
  // The choices are numbers, except `auto`.
  const unsigned bits =
      base::parse_number<unsigned>(spec.choice("bits", kBits)).value_or(pairs ? 32 : 4);
  if (pairs && bits != 32) {
    throw ConfigError(fmt::format(
        "gossip: bits={} needs exchange=pushsum; use bits=32 with exchange=pair", bits));
  }
  return std::make_unique<Gossip>(options, pairs ? make_pair_swap() : make_push_sum(bits),
                                  peers == "random" ? PeerRule::random
                                  : peers == "ring" ? PeerRule::ring
                                                    : PeerRule::exp,
                                  bits != 32);
}

}  // namespace thinwire::strategy
