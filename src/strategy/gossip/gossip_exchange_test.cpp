// Push-sum and pairs on a network made of queues: messages take as long as they like, and those of
// different workers overtake each other.
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

class Town {
 public:
  Town(Make make, std::size_t workers, std::uint64_t seed, std::size_t numel = kNumel)
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
    const bool begun =
        workers_[from].exchange->start(static_cast<int>(to), workers_[from].model, out);
    post(from, out);
    return begun;
  }
  void attend(std::size_t worker) {
    std::vector<OutgoingMessage> out;
    const auto attended =
        workers_[worker].exchange->attend(workers_[worker].model, idle(worker), out);
    workers_[worker].refused |= attended.refused;
    workers_[worker].coded_blocks += attended.coded_blocks;
    workers_[worker].blocks_out_of_range += attended.blocks_out_of_range;
    post(worker, out);
  }
  // The oldest message from one to the other arrives. False if there is none.
  bool deliver(std::size_t from, std::size_t to) {
    auto& queue = streets_[{from, to}];
    if (queue.empty()) return false;
    message::GossipMessage message;
    message.reserve(workers_[to].model.size());
    std::ranges::copy(queue.front(), message.room().begin());
    const std::size_t bytes = queue.front().size();
    queue.pop_front();
    workers_[to].exchange->arrived(static_cast<int>(from), message.read(bytes), message);
    return true;
  }
  // Everything arrives and is answered.
  void quiesce() {
    for (int pass = 0; pass < 3; ++pass) {
      for (std::size_t from = 0; from < size(); ++from) {
        for (std::size_t to = 0; to < size(); ++to) {
          while (deliver(from, to)) {
          }
        }
      }
      for (std::size_t w = 0; w < size(); ++w) attend(w);
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

  // Weights and weighted sums of all models, those in messages included.
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
  // A worker sends one batch after the other.
  bool idle(std::size_t worker) const {
    for (const auto& [ends, queue] : streets_) {
      if (ends.first == worker && !queue.empty()) return false;
    }
    return true;
  }
  void post(std::size_t from, const std::vector<OutgoingMessage>& messages) {
    for (const OutgoingMessage& each : messages) {
      const Bytes bytes = each.message->bytes();
      streets_[{from, static_cast<std::size_t>(each.to)}].emplace_back(bytes.begin(), bytes.end());
    }
  }

  std::vector<Worker> workers_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<Payload>> streets_;
};

// Random events, messages delayed and out of order; then everything settles.
void wander(Town& town, std::uint64_t seed, std::uint64_t events) {
  for (std::uint64_t event = 0; event < events; ++event) {
    const auto random = base::philox(seed, event, 1, base::Purpose::test);
    const std::size_t from = random[1] % town.size(), to = random[2] % town.size();
    if (random[0] % 4 == 0 && from != to) town.start(from, to);
    if (random[0] % 4 == 1) town.attend(from);
    if (random[0] % 4 >= 2) town.deliver(from, to);
  }
  town.quiesce();
}

// Two workers tell each other often enough to do it in few bits from here on.
void get_acquainted(Town& town) {
  for (int round = 0; round < 30; ++round) {
    for (std::size_t w : {0u, 1u}) town.start(w, 1 - w);
    town.quiesce();
  }
}

TEST(PushSum, GivesHalfOfItsWeightAndMovesByTheShareOfWhatCame) {
  Town town(push_sum, 2, 1);
  const float a = town[0].model[0], b = town[1].model[0];
  const double whole = town.weight();
  EXPECT_TRUE(town.start(0, 1));
  town.deliver(0, 1);
  town.attend(1);
  EXPECT_EQ(town[0].exchange->weight(), whole / 4);
  EXPECT_EQ(town[1].exchange->weight(), whole * 3 / 4);
  EXPECT_EQ(town[0].model[0], a) << "who tells does not move";
  EXPECT_NEAR(town[1].model[0], b + (a - b) / 3, 1e-6);
}

// What waits in the inbox is merged with what comes, as if each had been merged on its own.
TEST(PushSum, TheInboxCoalesces) {
  Town at_once(push_sum, 5, 7), one_by_one(push_sum, 5, 7);
  for (std::size_t from = 1; from < 5; ++from) {
    for (Town* town : {&at_once, &one_by_one}) {
      town->start(from, 0);
      town->deliver(from, 0);
    }
    one_by_one.attend(0);
  }
  at_once.attend(0);
  EXPECT_EQ(at_once[0].exchange->weight(), one_by_one[0].exchange->weight());
  for (std::size_t i = 0; i < kNumel; ++i) {
    EXPECT_NEAR(at_once[0].model[i], one_by_one[0].model[i], 1e-6);
  }
}

TEST(PushSum, WhoBecomesTooLightIsSilentUntilToldSomething) {
  Town town(push_sum, 2, 1);
  int sent = 0;
  while (town.start(0, 1)) {
    town.deliver(0, 1);
    ASSERT_LT(++sent, 64);
  }
  EXPECT_GT(sent, 20);
  EXPECT_GT(town[0].exchange->weight(), 0);
  town.attend(1);
  town.start(1, 0);
  town.deliver(1, 0);
  town.attend(0);
  EXPECT_TRUE(town.start(0, 1));
}

RC_GTEST_PROP(PushSum, NoMassIsLostUnderDelayAndReordering, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(2, 10);
  for (int schedule = 0; schedule < 20; ++schedule) {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Town town(push_sum, size, seed);
    const double weight = town.weight();
    std::vector<double> before;
    for (std::size_t i = 0; i < kNumel; ++i) before.push_back(town.weighted_mean(i));
    wander(town, seed, 150);
    RC_ASSERT(town.weight() == weight);
    for (std::size_t i = 0; i < kNumel; ++i) {
      RC_ASSERT(std::abs(town.weighted_mean(i) - before[i]) < 1e-5);
    }
  }
}

// Models come together, messages in few bits as well as in many.
RC_GTEST_PROP(PushSum, NoMassIsLostInFewBits, ()) {
  constexpr std::size_t kLarge = 300;  // two blocks
  for (const Make make : {in_8_bits, in_4_bits}) {
    const auto size = *rc::gen::inRange<std::size_t>(2, 6);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Town town(make, size, seed, kLarge);
    const double weight = town.weight();
    std::vector<double> before;
    for (std::size_t i = 0; i < kLarge; ++i) before.push_back(town.weighted_mean(i));
    wander(town, seed, 500 * size);
    RC_ASSERT(town.weight() == weight);
    RC_ASSERT(town.count(&Worker::coded_blocks) > 10 * size);
    RC_ASSERT(town.spread() < 0.3);
    // A block that was not read is the one thing that moves the mean: by less than models differ.
    const bool all_read = town.count(&Worker::blocks_out_of_range) == 0;
    for (std::size_t i = 0; i < kLarge; ++i) {
      RC_ASSERT(std::abs(town.weighted_mean(i) - before[i]) < (all_read ? 1e-5 : 0.3));
    }
  }
}

TEST(PushSum, WorkersInTouchReadEveryBlockAndMeetWhereTheyDoInFull) {
  constexpr std::size_t kLarge = 1000, kWorkers = 4;
  for (const Make make : {in_8_bits, in_4_bits}) {
    Town town(make, kWorkers, 3, kLarge);
    std::vector<double> before;
    for (std::size_t i = 0; i < kLarge; ++i) before.push_back(town.weighted_mean(i));
    for (std::size_t round = 0; round < 100; ++round) {
      for (std::size_t w = 0; w < kWorkers; ++w) town.start(w, (w + 1 + round % 2) % kWorkers);
      town.quiesce();
    }
    EXPECT_EQ(town.count(&Worker::blocks_out_of_range), 0u);
    EXPECT_GT(town.count(&Worker::coded_blocks), 80 * kWorkers * 4);
    EXPECT_LT(town.spread(), 1e-3);
    for (std::size_t i = 0; i < kLarge; ++i) {
      ASSERT_NEAR(town.weighted_mean(i), before[i], 1e-5);
    }
  }
}

TEST(PushSum, ALetterInFewBitsIsThatShort) {
  constexpr std::size_t kLarge = 1000;  // four blocks
  for (const auto& [make, bytes] : {std::pair<Make, std::size_t>{push_sum, 16 + 4000},
                                    {in_8_bits, 16 + 4 * 6 + 1000},
                                    {in_4_bits, 16 + 4 * 6 + 500}}) {
    Town town(make, 2, 1, kLarge);
    get_acquainted(town);
    std::vector<OutgoingMessage> out;
    ASSERT_TRUE(town[0].exchange->start(1, town[0].model, out));
    EXPECT_EQ(out[0].message->bytes().size(), bytes);
    EXPECT_TRUE(out[0].message->has_model());
  }
}

TEST(PushSum, RefusesLettersInOtherBits) {
  Town town(in_8_bits, 2, 1);
  get_acquainted(town);
  std::vector<OutgoingMessage> out;
  ASSERT_TRUE(town[0].exchange->start(1, town[0].model, out));
  message::GossipMessage message;
  message.reserve(kNumel);
  std::ranges::copy(out[0].message->bytes(), message.room().begin());
  const message::GossipMessage::Contents contents = message.read(out[0].message->bytes().size());
  for (const Make make : {push_sum, in_4_bits, make_pair_swap}) {
    const auto exchange = make();
    exchange->begin(town[1].model, 2);
    EXPECT_THROW(exchange->arrived(0, contents, message), WireError);
    std::vector<float> model = town[1].model;
    EXPECT_FALSE(exchange->attend(model, true, out).merged);
  }
}

TEST(PushSum, WeightInboxAndRangesSurviveACheckpoint) {
  for (const Make make : {push_sum, in_4_bits}) {
    Town town(make, 2, 5);
    get_acquainted(town);
    town.start(0, 1);
    town.deliver(0, 1);
    for (std::size_t w = 0; w < 2; ++w) {
      Payload state;
      base::ByteWriter writer(state);
      town[w].exchange->save(writer);
      base::ByteReader reader(state, "state");
      const auto restored = make();
      restored->load(reader);
      reader.expect_end();
      std::vector<float> model = town[w].model;
      restored->begin(model, 2);
      std::vector<OutgoingMessage> messages;
      restored->attend(model, true, messages);
      town.attend(w);
      EXPECT_EQ(model, town[w].model);
      EXPECT_EQ(restored->weight(), town[w].exchange->weight());
      // And they go on in the same way.
      restored->start(0, model, messages);
      town[w].exchange->start(0, town[w].model, messages);
      const Bytes resumed = messages[0].message->bytes(), lasting = messages[1].message->bytes();
      EXPECT_TRUE(std::ranges::equal(resumed, lasting));
      EXPECT_EQ(model, town[w].model);
    }
  }
}

TEST(PushSum, MoreWeightThanAllHaveIsForeign) {
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
  Town town(make_pair_swap, 2, 1);
  const float a = town[0].model[0], b = town[1].model[0];
  EXPECT_TRUE(town.start(0, 1));
  town.deliver(0, 1);
  town.attend(1);
  town.move(0, 1.0f);  // meanwhile
  town.deliver(1, 0);
  town.attend(0);
  EXPECT_NEAR(town[1].model[0], (a + b) / 2, 1e-6);
  EXPECT_NEAR(town[0].model[0], (a + b) / 2 + 1, 1e-6);
}

TEST(PairSwap, TwoThatAskEachOtherHaveTheirAnswers) {
  Town town(make_pair_swap, 2, 1);
  const float middle = (town[0].model[0] + town[1].model[0]) / 2;
  EXPECT_TRUE(town.start(0, 1));
  EXPECT_TRUE(town.start(1, 0));
  town.deliver(0, 1);
  town.deliver(1, 0);
  for (std::size_t w : {0u, 1u}) town.attend(w);
  for (std::size_t w : {0u, 1u}) {
    EXPECT_NEAR(town[w].model[0], middle, 1e-6);
    EXPECT_FALSE(town[w].refused);
  }
  EXPECT_FALSE(town.deliver(0, 1) || town.deliver(1, 0)) << "no further message";
  EXPECT_TRUE(town.start(0, 1));
}

TEST(PairSwap, ACircleOfRequestsIsRefusedAndEnds) {
  Town town(make_pair_swap, 3, 1);
  for (std::size_t w = 0; w < 3; ++w) EXPECT_TRUE(town.start(w, (w + 1) % 3));
  const double before = town.mean(0);
  town.quiesce();
  for (std::size_t w = 0; w < 3; ++w) EXPECT_TRUE(town[w].refused);
  EXPECT_DOUBLE_EQ(town.mean(0), before);
  EXPECT_TRUE(town.start(0, 1));
}

TEST(PairSwap, AnAnswerToNothingIsForeign) {
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
    Town town(make_pair_swap, size, seed);
    std::vector<double> before;
    for (std::size_t i = 0; i < kNumel; ++i) before.push_back(town.mean(i));
    wander(town, seed, 200);
    for (std::size_t i = 0; i < kNumel; ++i) {
      RC_ASSERT(std::abs(town.mean(i) - before[i]) < 1e-5);
    }
    for (std::size_t w = 0; w < size; ++w) {
      RC_ASSERT(town.start(w, (w + 1) % size));
      town.quiesce();
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
