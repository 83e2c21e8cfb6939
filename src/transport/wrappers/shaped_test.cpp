// Tests the imitated network with exact times: every rank has a clock of its own that only its
// sleeps advance, so the clock shows how long the imitation made the rank wait. bench/shaped.cpp
// measures how precise real sleeps are.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "testing/expect.h"
#include "transport/backends.h"
#include "transport/message_matcher.h"

namespace thinwire::transport {
namespace {

constexpr Tag kTag{1};
constexpr Seconds kUnit{1e-3};  // the transfer time of kBytes on kNetwork
constexpr std::size_t kBytes = 1000;
constexpr Network kNetwork{8e6, Seconds(10e-3)};
constexpr Seconds kLatency = kNetwork.latency;

class RankClock final : public Runtime {
 public:
  Seconds now() const override { return time; }
  void sleep(Seconds duration) override { time += duration + late; }
  std::unique_ptr<Task> launch(std::function<void()> work) override {
    return system_runtime().launch(std::move(work));
  }
  std::unique_ptr<Event> make_event() override { return system_runtime().make_event(); }
  Seconds time{0};
  Seconds late{0};  // how late every sleep ends
};

class Clocked final : public Transport {
 public:
  Clocked(std::unique_ptr<Transport> inner, RankClock& clock)
      : Transport(inner->rank(), inner->hosts(), clock), clock_(clock), inner_(std::move(inner)) {
    set_timeout(inner_->timeout());
  }

 private:
  std::uint32_t do_post_send(int to, Tag tag, Bytes message) override {
    return inner_->post_send(to, tag, message).ticket;
  }
  std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit fit) override {
    return inner_->post_recv(from, tag, into, fit).ticket;
  }
  Received do_wait(const Pending& pending, Seconds timeout) override {
    inner_->set_timeout(timeout);
    return inner_->wait(pending);
  }
  void do_cancel() noexcept override { inner_.reset(); }
  std::unique_ptr<Transport> do_lane() override {
    return std::make_unique<Clocked>(inner_->lane(), clock_);
  }
  std::unique_ptr<Transport> do_clone_handle() override {
    return std::make_unique<Clocked>(inner_->clone_handle(), clock_);
  }

  RankClock& clock_;
  std::unique_ptr<Transport> inner_;
};

using TimedWorker = std::function<void(Transport& wire, RankClock& clock)>;

void run_shaped(int size, const TimedWorker& worker, const Network& network = kNetwork) {
  BackendOptions options;
  options.size = size;
  options.timeout = Seconds(30);
  run_workers("threads", options, [&](Transport& joined) {
    RankClock clock;
    const auto wire = make_shaped(std::make_unique<Clocked>(joined.lane(), clock), network);
    worker(*wire, clock);
  });
}

// Clocks add and subtract doubles, so times are compared with a tolerance of a picosecond.
void expect_time(Seconds actual, Seconds expected) {
  EXPECT_NEAR(actual.count(), expected.count(), 1e-12);
}

const Payload& data() {
  static const Payload bytes(10 * kBytes, std::byte{42});
  return bytes;
}
Bytes units(std::size_t n) { return Bytes(data()).first(n * kBytes); }

TEST(Shaped, OneTransferTakesItsTimeAndTheLatency) {
  run_shaped(2, [](Transport& wire, RankClock& clock) {
    Payload room(kBytes);
    if (wire.rank() == 0) {
      wire.send(1, kTag, units(1));
      expect_time(clock.time, kUnit);
    } else {
      wire.recv(0, kTag, room);
      expect_time(clock.time, kUnit + kLatency);
    }
  });
}

TEST(Shaped, AnEmptyMessageTakesTheLatency) {
  run_shaped(2, [](Transport& wire, RankClock& clock) {
    for (int round = 0; round < 3; ++round) {
      if (wire.rank() == 0) wire.send(1, kTag, {}), wire.recv(1, kTag, {});
      if (wire.rank() == 1) wire.recv(0, kTag, {}), wire.send(0, kTag, {});
    }
    expect_time(clock.time, (wire.rank() == 0 ? 6 : 5) * kLatency);
  });
}

TEST(Shaped, TransfersFollowOneAnother) {
  run_shaped(2, [](Transport& wire, RankClock& clock) {
    Payload room(kBytes);
    for (int i = 1; i <= 5; ++i) {
      if (wire.rank() == 0) {
        wire.send(1, kTag, units(1));
        expect_time(clock.time, i * kUnit);
      } else {
        wire.recv(0, kTag, room);
        expect_time(clock.time, i * kUnit + kLatency);
      }
    }
  });
}

TEST(Shaped, AnIdleLinkDoesNotAccumulateBandwidth) {
  run_shaped(2, [](Transport& wire, RankClock& clock) {
    Payload room(kBytes);
    for (int i = 0; i < 3; ++i) {
      if (wire.rank() == 0) {
        wire.send(1, kTag, units(1));
        wire.sleep(4 * kUnit);  // computes
      } else {
        wire.recv(0, kTag, room);
        expect_time(clock.time, (5 * i + 1) * kUnit + kLatency);
      }
    }
  });
}

TEST(Shaped, ALateReceiverDoesNotWait) {
  run_shaped(2, [](Transport& wire, RankClock& clock) {
    Payload room(kBytes);
    if (wire.rank() == 0) return wire.send(1, kTag, units(1));
    wire.sleep(Seconds(5));
    wire.recv(0, kTag, room);
    expect_time(clock.time, Seconds(5));
  });
}

TEST(Shaped, FlowsIntoOneReceiverShareItsLink) {
  run_shaped(5, [](Transport& wire, RankClock& clock) {
    Payload room(kBytes);
    if (wire.rank() != 0) {
      wire.send(0, kTag, units(1));
      expect_time(clock.time, kUnit);
      return;
    }
    for (int from = 4; from >= 1; --from) {
      wire.recv(from, kTag, room);
      expect_time(clock.time, (5 - from) * kUnit + kLatency);
    }
  });
}

TEST(Shaped, AnIncastToAnyRankEndsAtTheSameTime) {
  run_shaped(5, [](Transport& wire, RankClock& clock) {
    Payload room(kBytes);
    if (wire.rank() != 0) return wire.send(0, kTag, units(1));
    for (int i = 0; i < 4; ++i) wire.recv(kAnyRank, kTag, room);
    expect_time(clock.time, 4 * kUnit + kLatency);
  });
}

TEST(Shaped, AnEarlyMessageIsNotDelayedByALaterOneThatIsReceivedFirst) {
  run_shaped(3, [](Transport& wire, RankClock& clock) {
    Payload room(kBytes);
    if (wire.rank() == 1) wire.sleep(Seconds(1));
    if (wire.rank() != 0) return wire.send(0, kTag, units(1));
    wire.recv(1, kTag, room);
    expect_time(clock.time, Seconds(1) + kUnit + kLatency);
    wire.recv(2, kTag, room);
    expect_time(clock.time, Seconds(1) + kUnit + kLatency);
  });
}

TEST(Shaped, FlowsFromOneSenderShareItsLink) {
  run_shaped(4, [](Transport& wire, RankClock& clock) {
    Payload room(kBytes);
    if (wire.rank() == 0) {
      std::vector<Pending> sends;
      for (int to = 1; to < 4; ++to) sends.push_back(wire.post_send(to, kTag, units(1)));
      for (const Pending& send : sends) wire.wait(send);
      expect_time(clock.time, 3 * kUnit);
    } else {
      wire.recv(0, kTag, room);
      expect_time(clock.time, wire.rank() * kUnit + kLatency);
    }
  });
}

TEST(Shaped, TheDirectionsOfALinkAreIndependent) {
  run_shaped(2, [](Transport& wire, RankClock& clock) {
    Payload room(10 * kBytes);
    const int peer = 1 - wire.rank();
    wire.exchange(peer, units(3), peer, room, kTag);
    expect_time(clock.time, 3 * kUnit + kLatency);
  });
}

TEST(Shaped, LanesShareTheLinkInBothDirections) {
  run_shaped(3, [](Transport& wire, RankClock& clock) {
    const auto lane = wire.lane();
    Payload room(10 * kBytes);
    if (wire.rank() == 0) {  // sends on two lanes
      const Pending one = wire.post_send(1, kTag, units(1));
      const Pending two = lane->post_send(1, kTag, units(2));
      lane->wait(two);
      expect_time(clock.time, 3 * kUnit);
      wire.wait(one);
    } else if (wire.rank() == 1) {
      lane->recv(0, kTag, room);
      expect_time(clock.time, 3 * kUnit + kLatency);
      wire.recv(0, kTag, room);
      lane->recv(2, kTag, room);  // arrived together with the others, over the same link
      expect_time(clock.time, 5 * kUnit + kLatency);
    } else {
      lane->send(1, kTag, units(2));
    }
  });
}

// Runs rounds in which every rank forwards a message, as in a ring all-gather.
void ring(Transport& wire, std::size_t rounds) {
  const int next = (wire.rank() + 1) % wire.size();
  const int last = (wire.rank() + wire.size() - 1) % wire.size();
  Payload room(kBytes);
  for (std::size_t i = 0; i < rounds; ++i) wire.exchange(next, units(1), last, room, kTag);
}

TEST(Shaped, ARingTakesItsFormula) {
  run_shaped(5, [](Transport& wire, RankClock& clock) {
    ring(wire, 4);
    expect_time(clock.time, 4 * (kUnit + kLatency));
  });
}

TEST(Shaped, LateWakeUpsDoNotAddUp) {
  run_shaped(5, [](Transport& wire, RankClock& clock) {
    clock.late = Seconds(60e-6 * (wire.rank() + 1));
    ring(wire, 400);
    expect_time(clock.time, 400 * (kUnit + kLatency) + clock.late);
  });
}

// A benchmark reads its start time after a barrier, from which it may wake up late.
TEST(Shaped, ItsClockShowsTheWireTimeDespiteLateWakeUps) {
  run_shaped(2, [](Transport& wire, RankClock& clock) {
    clock.late = 3.3 * kUnit * (wire.rank() + 1);
    ring(wire, 1);
    const Seconds start = wire.now();
    ring(wire, 3);
    expect_time(wire.now() - start, 3 * (kUnit + kLatency));
    expect_time(clock.time - wire.now(), clock.late);
  });
}

TEST(Shaped, ALateReceiverCatchesUp) {
  run_shaped(2, [](Transport& wire, RankClock& clock) {
    if (wire.rank() == 1) clock.late = 2.5 * kUnit;
    Payload room(kBytes);
    for (int i = 1; i <= 20; ++i) {
      if (wire.rank() == 0) wire.send(1, kTag, units(1));
      if (wire.rank() == 1) wire.recv(0, kTag, room);
    }
    // It wakes up 2.5 units late from message 19 and therefore does not sleep for message 20.
    expect_time(clock.time, 20 * kUnit + (wire.rank() == 1 ? kLatency + 1.5 * kUnit : Seconds(0)));
  });
}

TEST(Shaped, AtMost20MillisecondsOfALateWakeUpAreCompensated) {
  run_shaped(2, [](Transport& wire, RankClock& clock) {
    Payload room(kBytes);
    if (wire.rank() == 0) {
      clock.late = Seconds(1);
      wire.send(1, kTag, units(1));
      expect_time(clock.time, Seconds(1) + kUnit);
      wire.send(1, kTag, units(1));
    } else {
      wire.recv(0, kTag, room);
      wire.recv(0, kTag, room);
      expect_time(clock.time, Seconds(1) + 2 * kUnit + kLatency - Seconds(20e-3));
    }
  });
}

TEST(Shaped, AnUnlimitedLinkStillHasLatency) {
  run_shaped(
      2,
      [](Transport& wire, RankClock& clock) {
        Payload room(10 * kBytes);
        const int peer = 1 - wire.rank();
        wire.exchange(peer, units(10), peer, room, kTag);
        expect_time(clock.time, kLatency);
      },
      Network{0, kLatency});
}

// Rank 0 writes its envelopes itself, with absurd due times; rank 1 must not sleep until then.
TEST(Shaped, AnAbsurdDueTimeIsRefusedByName) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double due : {std::nan(""), kInfinity, -kInfinity, 1e300, 2.0 * 86'400}) {
    BackendOptions options;
    options.size = 2;
    run_workers("threads", options, [&](Transport& joined) {
      if (joined.rank() == 0) {
        const auto raw = joined.lane();
        std::uint64_t machine = 0;  // ranks first compare their machines
        raw->recv(1, Tag{0}, std::as_writable_bytes(std::span(&machine, 1)));
        raw->send(1, Tag{0}, std::as_bytes(std::span(&machine, 1)));
        Payload envelope;
        base::ByteWriter(envelope).put(std::uint64_t{kBytes});
        base::ByteWriter(envelope).put(due);
        raw->send(1, Tag{static_cast<std::uint32_t>(kTag) + kTagLimit}, envelope);
        raw->send(1, kTag, units(1));
        return;
      }
      RankClock clock;
      const auto wire = make_shaped(std::make_unique<Clocked>(joined.lane(), clock), kNetwork);
      Payload room(kBytes);
      const auto refusal = test::must_throw<WireError>([&] { wire->recv(0, kTag, room); });
      EXPECT_TRUE(
          test::has(refusal.what(), "rank 1: rank 0 (this process) sent an unreadable message"));
      EXPECT_EQ(refusal.fields().rank, 1);
      EXPECT_EQ(refusal.fields().peer, 0);
      EXPECT_EQ(refusal.fields().host, "this process");
      EXPECT_EQ(clock.time.count(), 0);
    });
  }
}

TEST(Shaped, CountsPayloadOnly) {
  run_shaped(2, [](Transport& wire, RankClock&) {
    ring(wire, 3);
    EXPECT_EQ(wire.traffic().bytes_sent, 3 * kBytes);
    EXPECT_EQ(wire.traffic().bytes_received, 3 * kBytes);
    EXPECT_EQ(wire.traffic().messages_sent, 3u);
  });
}

TEST(Shaped, AReceiveClosedByAnOlderOneStaysAheadOfANewerOne) {
  run_shaped(2, [](Transport& wire, RankClock&) {
    Payload rooms[3] = {Payload(10), Payload(10), Payload(10)};
    if (wire.rank() == 1) {
      for (const std::size_t bytes : {1u, 2u, 3u}) wire.send(0, kTag, units(1).first(bytes));
      return;
    }
    const Pending any = wire.post_recv(kAnyRank, kTag, rooms[0], Fit::at_most);
    const Pending closed = wire.post_recv(1, kTag, rooms[1], Fit::at_most);
    EXPECT_EQ(wire.wait(any).bytes, 1u);
    const Pending newer = wire.post_recv(1, kTag, rooms[2], Fit::at_most);
    EXPECT_EQ(wire.wait(newer).bytes, 3u);
    EXPECT_EQ(wire.wait(closed).bytes, 2u);
  });
}

// A case of the property below.
struct Case {
  struct Receive {
    int accepts;
    Fit fit;
    std::size_t message;  // the message that it must get
  };
  std::vector<int> senders;  // the senders of messages 0, 1, ...: rank 1 or 2
  std::vector<Receive> receives;
  std::vector<std::size_t> wait_order;
};

// Returns message i: i + 1 bytes of value i, so that messages differ.
Payload numbered(std::size_t i) { return Payload(i + 1, static_cast<std::byte>(i)); }

// Generates receives and the messages that they must get, as if the inner transport had posted all
// receives before the first message. Returns nothing if a message would match no receive.
std::optional<Case> any_case() {
  struct Operation : Posted {
    std::size_t number = 0;
  };
  Case scenario;
  const auto count = *rc::gen::inRange<std::size_t>(1, 9);
  std::vector<Operation> receives(count), sends(count);
  MessageMatcher<Operation> matcher;
  for (std::size_t i = 0; i < count; ++i) {
    scenario.senders.push_back(*rc::gen::inRange(1, 3));
    scenario.receives.push_back({*rc::gen::element(kAnyRank, 1, 2), Fit::at_most, count});
    receives[i].from = scenario.receives[i].accepts;
    receives[i].number = i;
    matcher.post_receive(receives[i]);
  }
  std::sort(scenario.senders.begin(), scenario.senders.end());  // rank 2 sends after rank 1
  for (std::size_t i = 0; i < count; ++i) {
    sends[i].from = scenario.senders[i];
    const Operation* receive = matcher.post_send(sends[i]);
    if (receive == nullptr) return std::nullopt;
    scenario.receives[receive->number].message = i;
    scenario.wait_order.push_back(i);
  }
  for (Case::Receive& receive : scenario.receives) {
    receive.fit = *rc::gen::element(Fit::exact, Fit::at_most);
  }
  for (std::size_t i = count; i > 1; --i) {
    std::swap(scenario.wait_order[i - 1],
              scenario.wait_order[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  return scenario;
}

void play(const Case& scenario, Transport& wire) {
  const auto control = wire.lane();
  if (wire.rank() != 0) {
    control->recv(wire.rank() - 1, kTag, {});  // all receives are posted; rank 1 has sent
    std::vector<Payload> messages;
    std::vector<Pending> sends;
    for (std::size_t i = 0; i < scenario.senders.size(); ++i) messages.push_back(numbered(i));
    for (std::size_t i = 0; i < scenario.senders.size(); ++i) {
      if (scenario.senders[i] == wire.rank()) {
        sends.push_back(wire.post_send(0, kTag, messages[i]));
      }
    }
    if (wire.rank() == 1) control->send(2, kTag, {});
    for (const Pending& send : sends) wire.wait(send);
    return;
  }
  std::vector<Payload> rooms;
  std::vector<Pending> pending;
  for (const Case::Receive& receive : scenario.receives) {
    rooms.emplace_back(receive.fit == Fit::exact ? receive.message + 1 : 20);
    pending.push_back(wire.post_recv(receive.accepts, kTag, rooms.back(), receive.fit));
  }
  control->send(1, kTag, {});
  for (const std::size_t i : scenario.wait_order) {
    const std::size_t message = scenario.receives[i].message;
    const Received got = wire.wait(pending[i]);
    if (got.from != scenario.senders[message] || got.bytes != message + 1) {
      throw WireError("a receive got the envelope of another message");
    }
    rooms[i].resize(got.bytes);
    if (rooms[i] != numbered(message)) throw WireError("a receive got the body of another message");
  }
}

RC_GTEST_PROP(ShapedProperty, EnvelopeAndBodyReachTheSameReceive, ()) {
  const std::optional<Case> scenario = any_case();
  RC_PRE(scenario.has_value());
  run_shaped(3, [&](Transport& wire, RankClock&) { play(*scenario, wire); });
}

}  // namespace
}  // namespace thinwire::transport
