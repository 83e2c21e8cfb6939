// Push-sum and pairs on a network of queues: messages have any delay, and messages between
// different workers arrive in any order.
#include "strategy/gossip/gossip_exchange.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <deque>
#include <map>

#include "base/random.h"
#include "strategy/common/state.h"
#include "testing/expect.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

using Make = std::unique_ptr<GossipExchange> (*)();

constexpr std::size_t kNumel = 3;

std::unique_ptr<GossipExchange> push_sum() { return make_push_sum(); }
std::unique_ptr<GossipExchange> in_8_bits() { return make_push_sum(8); }
std::unique_ptr<GossipExchange> in_4_bits() { return make_push_sum(4); }

struct Worker {
  std::unique_ptr<GossipExchange> exchange;
  std::vector<float> model;
  bool refused = false;
  std::uint64_t coded_blocks = 0, blocks_out_of_range = 0;
};

// Workers that are connected by one queue of messages for each pair of sender and receiver.
class QueueNetwork {
 public:
  QueueNetwork(Make make, std::size_t workers, std::uint64_t seed, std::size_t numel = kNumel)
      : workers_(workers) {
    for (std::size_t w = 0; w < workers; ++w) {
      workers_[w].exchange = make();
      for (std::size_t i = 0; i < numel; ++i) {
        workers_[w].model.push_back(
            base::unit_float(base::philox(seed, w, i, base::Purpose::test)[0]));
      }
      workers_[w].exchange->begin(workers_[w].model, static_cast<int>(workers_.size()));
    }
  }

  std::size_t size() const { return workers_.size(); }
  Worker& operator[](std::size_t w) { return workers_[w]; }

  bool start(std::size_t from, std::size_t to) {
    std::vector<OutgoingMessage> out;
    if (!idle(from)) return false;
    const bool started =
        workers_[from].exchange->start(static_cast<int>(to), workers_[from].model, out);
    post(from, out);
    return started;
  }
  void process_arrived(std::size_t worker) {
    std::vector<OutgoingMessage> out;
    const auto result =
        workers_[worker].exchange->process_arrived(workers_[worker].model, idle(worker), out);
    workers_[worker].refused |= result.refused;
    workers_[worker].coded_blocks += result.coded_blocks;
    workers_[worker].blocks_out_of_range += result.blocks_out_of_range;
    post(worker, out);
  }
  // Delivers the oldest message of one worker to another. Returns false if there is none.
  bool deliver(std::size_t from, std::size_t to) {
    auto& queue = queues_[{from, to}];
    if (queue.empty()) return false;
    message::GossipMessage message;
    message.reserve(workers_[to].model.size());
    std::ranges::copy(queue.front(), message.room().begin());
    const std::size_t bytes = queue.front().size();
    queue.pop_front();
    workers_[to].exchange->arrived(static_cast<int>(from), message.read(bytes), message);
    return true;
  }
  // Delivers all messages and all answers to them.
  void quiesce() {
    for (int pass = 0; pass < 3; ++pass) {
      for (std::size_t from = 0; from < size(); ++from) {
        for (std::size_t to = 0; to < size(); ++to) {
          while (deliver(from, to)) {
          }
        }
      }
      for (std::size_t w = 0; w < size(); ++w) process_arrived(w);
    }
  }
  void move(std::size_t worker, float by) {
    for (float& value : workers_[worker].model) value += by;
  }

  std::uint64_t count(std::uint64_t Worker::*what) const {
    std::uint64_t sum = 0;
    for (const Worker& worker : workers_) sum += worker.*what;
    return sum;
  }

  // Return the sum of all weights and the weighted mean of all models.
  double weight() const {
    double sum = 0;
    for (const Worker& worker : workers_) sum += worker.exchange->weight();
    return sum;
  }
  double weighted_mean(std::size_t element) const {
    double sum = 0;
    for (const Worker& worker : workers_) {
      sum += worker.exchange->weight() * static_cast<double>(worker.model[element]);
    }
    return sum / weight();
  }
  double mean(std::size_t element) const {
    double sum = 0;
    for (const Worker& worker : workers_) sum += worker.model[element];
    return sum / static_cast<double>(size());
  }
  double spread() const {
    double most = 0;
    for (const Worker& worker : workers_) {
      most = std::max(most, std::abs(static_cast<double>(worker.model[0]) -
                                     static_cast<double>(workers_[0].model[0])));
    }
    return most;
  }

 private:
  // Returns whether all messages of a worker were delivered: it sends one batch after the other.
  bool idle(std::size_t worker) const {
    for (const auto& [ends, queue] : queues_) {
      if (ends.first == worker && !queue.empty()) return false;
    }
    return true;
  }
  void post(std::size_t from, const std::vector<OutgoingMessage>& messages) {
    for (const OutgoingMessage& each : messages) {
      const Bytes bytes = each.message->bytes();
      queues_[{from, static_cast<std::size_t>(each.to)}].emplace_back(bytes.begin(), bytes.end());
    }
  }

  std::vector<Worker> workers_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<Payload>> queues_;
};

// Starts exchanges, delivers and processes messages at random; then delivers all messages.
void run_random_events(QueueNetwork& network, std::uint64_t seed, std::uint64_t events) {
  for (std::uint64_t event = 0; event < events; ++event) {
    const auto random = base::philox(seed, event, 1, base::Purpose::test);
    const std::size_t from = random[1] % network.size(), to = random[2] % network.size();
    if (random[0] % 4 == 0 && from != to) network.start(from, to);
    if (random[0] % 4 == 1) network.process_arrived(from);
    if (random[0] % 4 >= 2) network.deliver(from, to);
  }
  network.quiesce();
}

// Exchanges enough messages between two workers for later ones to be quantized.
void exchange_until_quantized(QueueNetwork& network) {
  for (int round = 0; round < 30; ++round) {
    for (std::size_t w : {0u, 1u}) network.start(w, 1 - w);
    network.quiesce();
  }
}

TEST(PushSum, SendsHalfOfItsWeightAndTheReceiverMovesByItsShare) {
  QueueNetwork network(push_sum, 2, 1);
  const float a = network[0].model[0], b = network[1].model[0];
  const double whole = network.weight();
  EXPECT_TRUE(network.start(0, 1));
  network.deliver(0, 1);
  network.process_arrived(1);
  EXPECT_EQ(network[0].exchange->weight(), whole / 4);
  EXPECT_EQ(network[1].exchange->weight(), whole * 3 / 4);
  EXPECT_EQ(network[0].model[0], a) << "the sender does not move";
  EXPECT_NEAR(network[1].model[0], b + (a - b) / 3, 1e-6);
}

// Models that arrive before a step are merged in the inbox, with the same result as one by one.
TEST(PushSum, TheInboxMergesModels) {
  QueueNetwork at_once(push_sum, 5, 7), one_by_one(push_sum, 5, 7);
  for (std::size_t from = 1; from < 5; ++from) {
    for (QueueNetwork* network : {&at_once, &one_by_one}) {
      network->start(from, 0);
      network->deliver(from, 0);
    }
    one_by_one.process_arrived(0);
  }
  at_once.process_arrived(0);
  EXPECT_EQ(at_once[0].exchange->weight(), one_by_one[0].exchange->weight());
  for (std::size_t i = 0; i < kNumel; ++i) {
    EXPECT_NEAR(at_once[0].model[i], one_by_one[0].model[i], 1e-6);
  }
}

TEST(PushSum, AWorkerWithTooLittleWeightSendsNothingUntilItReceives) {
  QueueNetwork network(push_sum, 2, 1);
  int sent = 0;
  while (network.start(0, 1)) {
    network.deliver(0, 1);
    ASSERT_LT(++sent, 64);
  }
  EXPECT_GT(sent, 20);
  EXPECT_GT(network[0].exchange->weight(), 0);
  network.process_arrived(1);
  network.start(1, 0);
  network.deliver(1, 0);
  network.process_arrived(0);
  EXPECT_TRUE(network.start(0, 1));
}

RC_GTEST_PROP(PushSum, NoMassIsLostUnderDelayAndReordering, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(2, 10);
  for (int schedule = 0; schedule < 20; ++schedule) {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    QueueNetwork network(push_sum, size, seed);
    const double weight = network.weight();
    std::vector<double> before;
    for (std::size_t i = 0; i < kNumel; ++i) before.push_back(network.weighted_mean(i));
    run_random_events(network, seed, 150);
    RC_ASSERT(network.weight() == weight);
    for (std::size_t i = 0; i < kNumel; ++i) {
      RC_ASSERT(std::abs(network.weighted_mean(i) - before[i]) < 1e-5);
    }
  }
}

// Models approach each other, with quantized messages, too.
RC_GTEST_PROP(PushSum, NoMassIsLostInQuantizedMessages, ()) {
  constexpr std::size_t kLarge = 300;  // two blocks
  for (const Make make : {in_8_bits, in_4_bits}) {
    const auto size = *rc::gen::inRange<std::size_t>(2, 6);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    QueueNetwork network(make, size, seed, kLarge);
    const double weight = network.weight();
    std::vector<double> before;
    for (std::size_t i = 0; i < kLarge; ++i) before.push_back(network.weighted_mean(i));
    run_random_events(network, seed, 500 * size);
    RC_ASSERT(network.weight() == weight);
    RC_ASSERT(network.count(&Worker::coded_blocks) > 10 * size);
    RC_ASSERT(network.spread() < 0.3);
    // Only a block that could not be read moves the mean, by less than the models differ.
    const bool all_read = network.count(&Worker::blocks_out_of_range) == 0;
    for (std::size_t i = 0; i < kLarge; ++i) {
      RC_ASSERT(std::abs(network.weighted_mean(i) - before[i]) < (all_read ? 1e-5 : 0.3));
    }
  }
}

TEST(PushSum, WorkersThatSendOftenReadEveryBlockAndKeepTheMean) {
  constexpr std::size_t kLarge = 1000, kWorkers = 4;
  for (const Make make : {in_8_bits, in_4_bits}) {
    QueueNetwork network(make, kWorkers, 3, kLarge);
    std::vector<double> before;
    for (std::size_t i = 0; i < kLarge; ++i) before.push_back(network.weighted_mean(i));
    for (std::size_t round = 0; round < 100; ++round) {
      for (std::size_t w = 0; w < kWorkers; ++w) network.start(w, (w + 1 + round % 2) % kWorkers);
      network.quiesce();
    }
    EXPECT_EQ(network.count(&Worker::blocks_out_of_range), 0u);
    EXPECT_GT(network.count(&Worker::coded_blocks), 80 * kWorkers * 4);
    EXPECT_LT(network.spread(), 1e-3);
    for (std::size_t i = 0; i < kLarge; ++i) {
      ASSERT_NEAR(network.weighted_mean(i), before[i], 1e-5);
    }
  }
}

TEST(PushSum, AQuantizedMessageHasTheExpectedLength) {
  constexpr std::size_t kLarge = 1000;  // four blocks
  for (const auto& [make, bytes] : {std::pair<Make, std::size_t>{push_sum, 16 + 4000},
                                    {in_8_bits, 16 + 4 * 6 + 1000},
                                    {in_4_bits, 16 + 4 * 6 + 500}}) {
    QueueNetwork network(make, 2, 1, kLarge);
    exchange_until_quantized(network);
    std::vector<OutgoingMessage> out;
    ASSERT_TRUE(network[0].exchange->start(1, network[0].model, out));
    EXPECT_EQ(out[0].message->bytes().size(), bytes);
    EXPECT_TRUE(out[0].message->has_model());
  }
}

TEST(PushSum, RefusesMessagesWithAnotherNumberOfBits) {
  QueueNetwork network(in_8_bits, 2, 1);
  exchange_until_quantized(network);
  std::vector<OutgoingMessage> out;
  ASSERT_TRUE(network[0].exchange->start(1, network[0].model, out));
  message::GossipMessage message;
  message.reserve(kNumel);
  std::ranges::copy(out[0].message->bytes(), message.room().begin());
  const message::GossipMessage::Contents contents = message.read(out[0].message->bytes().size());
  for (const Make make : {push_sum, in_4_bits, make_pair_swap}) {
    const auto exchange = make();
    exchange->begin(network[1].model, 2);
    EXPECT_THROW(exchange->arrived(0, contents, message), WireError);
    std::vector<float> model = network[1].model;
    EXPECT_FALSE(exchange->process_arrived(model, true, out).merged);
  }
}

TEST(PushSum, WeightInboxAndRangesSurviveACheckpoint) {
  for (const Make make : {push_sum, in_4_bits}) {
    QueueNetwork network(make, 2, 5);
    exchange_until_quantized(network);
    network.start(0, 1);
    network.deliver(0, 1);
    for (std::size_t w = 0; w < 2; ++w) {
      Payload state;
      base::ByteWriter writer(state);
      network[w].exchange->save(writer);
      base::ByteReader reader(state, "state");
      const auto restored = make();
      restored->load(reader);
      reader.expect_end();
      std::vector<float> model = network[w].model;
      restored->begin(model, 2);
      std::vector<OutgoingMessage> messages;
      restored->process_arrived(model, true, messages);
      network.process_arrived(w);
      EXPECT_EQ(model, network[w].model);
      EXPECT_EQ(restored->weight(), network[w].exchange->weight());
      // The next messages are equal, too.
      restored->start(0, model, messages);
      network[w].exchange->start(0, network[w].model, messages);
      const Bytes resumed = messages[0].message->bytes(), lasting = messages[1].message->bytes();
      EXPECT_TRUE(std::ranges::equal(resumed, lasting));
      EXPECT_EQ(model, network[w].model);
    }
  }
}

TEST(PushSum, RefusesMoreWeightThanAllWorkersHave) {
  constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;
  const auto exchange = make_push_sum();
  exchange->begin(std::vector<float>(kNumel), 2);
  message::GossipMessage message;
  for (const std::uint64_t weight : {2 * kWhole + 1, ~std::uint64_t{0}}) {
    message.write(message::GossipMessage::Kind::push, weight, std::vector<float>(kNumel));
    EXPECT_THROW(exchange->arrived(1, message.read(message.bytes().size()), message), WireError);
  }
  Payload state;
  base::ByteWriter writer(state);
  writer.put(2 * kWhole + 1);
  writer.put(std::uint64_t{0});
  put_floats(writer, {});
  base::ByteReader reader(state, "state");
  const auto restored = make_push_sum();
  restored->load(reader);
  EXPECT_THROW(restored->begin(std::vector<float>(kNumel), 2), WireError);
}

TEST(PairSwap, BothMoveHalfway) {
  QueueNetwork network(make_pair_swap, 2, 1);
  const float a = network[0].model[0], b = network[1].model[0];
  EXPECT_TRUE(network.start(0, 1));
  network.deliver(0, 1);
  network.process_arrived(1);
  network.move(0, 1.0f);  // a step during the exchange
  network.deliver(1, 0);
  network.process_arrived(0);
  EXPECT_NEAR(network[1].model[0], (a + b) / 2, 1e-6);
  EXPECT_NEAR(network[0].model[0], (a + b) / 2 + 1, 1e-6);
}

TEST(PairSwap, TwoRequestsToEachOtherAreTheReplies) {
  QueueNetwork network(make_pair_swap, 2, 1);
  const float middle = (network[0].model[0] + network[1].model[0]) / 2;
  EXPECT_TRUE(network.start(0, 1));
  EXPECT_TRUE(network.start(1, 0));
  network.deliver(0, 1);
  network.deliver(1, 0);
  for (std::size_t w : {0u, 1u}) network.process_arrived(w);
  for (std::size_t w : {0u, 1u}) {
    EXPECT_NEAR(network[w].model[0], middle, 1e-6);
    EXPECT_FALSE(network[w].refused);
  }
  EXPECT_FALSE(network.deliver(0, 1) || network.deliver(1, 0)) << "no further message";
  EXPECT_TRUE(network.start(0, 1));
}

TEST(PairSwap, ACircleOfRequestsIsRefusedAndEnds) {
  QueueNetwork network(make_pair_swap, 3, 1);
  for (std::size_t w = 0; w < 3; ++w) EXPECT_TRUE(network.start(w, (w + 1) % 3));
  const double before = network.mean(0);
  network.quiesce();
  for (std::size_t w = 0; w < 3; ++w) EXPECT_TRUE(network[w].refused);
  EXPECT_DOUBLE_EQ(network.mean(0), before);
  EXPECT_TRUE(network.start(0, 1));
}

TEST(PairSwap, RefusesAnAnswerWithoutARequest) {
  const auto exchange = make_pair_swap();
  exchange->begin(std::vector<float>(kNumel), 2);
  message::GossipMessage message;
  message.write(message::GossipMessage::Kind::reply, 0, std::vector<float>(kNumel));
  EXPECT_THROW(exchange->arrived(1, message.read(message.bytes().size()), message), WireError);
}

RC_GTEST_PROP(PairSwap, TheMeanStaysAndEveryExchangeEnds, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(2, 10);
  for (int schedule = 0; schedule < 20; ++schedule) {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    QueueNetwork network(make_pair_swap, size, seed);
    std::vector<double> before;
    for (std::size_t i = 0; i < kNumel; ++i) before.push_back(network.mean(i));
    run_random_events(network, seed, 200);
    for (std::size_t i = 0; i < kNumel; ++i) {
      RC_ASSERT(std::abs(network.mean(i) - before[i]) < 1e-5);
    }
    for (std::size_t w = 0; w < size; ++w) {
      RC_ASSERT(network.start(w, (w + 1) % size));
      network.quiesce();
    }
  }
}

TEST(GossipMessage, RefusesForeignBytes) {
  message::GossipMessage message;
  message.write(message::GossipMessage::Kind::push, 5, std::vector<float>(kNumel, 1.0f));
  const std::size_t bytes = message.bytes().size();
  EXPECT_EQ(message.read(bytes).number, 5u);
  EXPECT_EQ(message.read(bytes).model.size(), kNumel);
  for (std::size_t cut = 0; cut < bytes; ++cut) EXPECT_THROW(message.read(cut), WireError);
  message.room()[0] ^= std::byte{1};
  EXPECT_THROW(message.read(bytes), WireError);
  message.room()[0] ^= std::byte{1};
  message.room()[6] ^= std::byte{2};
  const auto other = test::must_throw<WireError>([&] { message.read(bytes); });
  EXPECT_TRUE(test::has(other.what(), "version (3; this program has 1)"));
}

}  // namespace
}  // namespace thinwire::strategy
