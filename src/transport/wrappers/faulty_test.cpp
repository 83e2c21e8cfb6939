#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <future>

#include "testing/expect.h"
#include "transport/backends.h"

namespace thinwire::transport {
namespace {

constexpr Tag kTag{1};

void run_pair(const std::string& fault, const Worker& worker) {
  BackendOptions options;
  options.size = 2;
  options.fault = fault;
  run_workers("threads", options, worker);
}

Payload pattern(std::size_t bytes, int seed) {
  Payload out(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    out[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed) * 7);
  return out;
}

int differing_bits(const Payload& a, const Payload& b) {
  EXPECT_EQ(a.size(), b.size());
  int bits = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    bits += std::popcount(std::to_integer<unsigned>(a[i] ^ b[i]));
  }
  return bits;
}

TEST(Faulty, DropLosesOneMessageAndTheReceiverNoticesByItsDeadline) {
  std::promise<void> noticed;
  run_pair("drop:rank=0,at=1", [&](Transport& wire) {
    const Payload message = pattern(100, 0);
    if (wire.rank() == 0) {
      wire.send(1, kTag, message);
      wire.send(1, kTag, message);  // the dropped one seems to be sent
      EXPECT_EQ(wire.traffic().messages_sent, 2u);
      // If this rank ended now, the peer's wait would end early.
      ASSERT_EQ(noticed.get_future().wait_for(Seconds(30)), std::future_status::ready);
      return;
    }
    Payload room(100);
    wire.recv(0, kTag, room);
    EXPECT_EQ(room, message);
    wire.set_timeout(Seconds(0.05));
    const auto error = test::must_throw<TransportError>([&] { wire.recv(0, kTag, room); });
    noticed.set_value();
    EXPECT_EQ(error.kind(), TransportError::Kind::deadline);
    EXPECT_EQ(error.peer(), 0);
  });
}

TEST(Faulty, DropWaitsForASend) {
  run_pair("drop:rank=0,at=0", [](Transport& wire) {
    Payload room(10);
    if (wire.rank() == 0) {
      wire.recv(1, kTag, room);            // operation 0 is a receive: nothing to drop
      wire.send(1, kTag, pattern(10, 1));  // dropped
      wire.send(1, kTag, pattern(10, 2));  // arrives
    } else {
      wire.send(0, kTag, room);
      wire.recv(0, kTag, room);
      EXPECT_EQ(room, pattern(10, 2));
    }
  });
}

TEST(Faulty, CorruptFlipsOneBitOfOneMessage) {
  for (const std::size_t bytes : {1u, 2u, 1000u, 70'000u}) {
    run_pair("corrupt:rank=0,at=2", [&](Transport& wire) {
      for (int i = 0; i < 6; ++i) {
        // Message 2 is empty, so the fault applies to message 3.
        const Payload message = pattern(i == 2 ? 0 : bytes, i);
        if (wire.rank() == 0) {
          wire.send(1, kTag, message);
          continue;
        }
        Payload room(message.size());
        wire.recv(0, kTag, room);
        EXPECT_EQ(differing_bits(room, message), i == 3 ? 1 : 0) << "message " << i;
      }
    });
  }
}

TEST(Faulty, CorruptLeavesTheSendersMemoryAlone) {
  run_pair("corrupt:rank=0,at=0", [](Transport& wire) {
    const Payload message = pattern(500, 0);
    Payload mine = message;
    if (wire.rank() == 0) {
      wire.send(1, kTag, mine);
      EXPECT_EQ(mine, message);
    } else {
      wire.recv(0, kTag, mine);
      EXPECT_EQ(differing_bits(mine, message), 1);
    }
  });
}

TEST(Faulty, FailThrowsAtThePlannedOperationAndEndsTheGroup) {
  std::atomic<int> done{0};
  const auto error = test::must_throw<Error>([&] {
    run_pair("fail:rank=1,at=3", [&](Transport& wire) {
      Payload room(8);
      const int peer = 1 - wire.rank();
      try {
        for (int i = 0; i < 4; ++i, ++done) wire.exchange(peer, pattern(8, i), peer, room, kTag);
      } catch (const TransportError& lost) {
        EXPECT_EQ(wire.rank(), 0);
        EXPECT_EQ(lost.peer(), 1);
        EXPECT_TRUE(test::has(lost.what(), "rank 1 fails at operation 3 as planned"));
        throw;
      } catch (const Error& planned) {
        EXPECT_EQ(wire.rank(), 1);
        EXPECT_EQ(test::must_throw<Error>([&] { wire.send(0, kTag, room); }).what(),
                  std::string(planned.what()));
        throw;
      }
    });
  });
  EXPECT_STREQ(error.what(), "rank 1 fails at operation 3 as planned");
  EXPECT_EQ(done, 2) << "operations 0 and 1, one exchange on each rank, come before the fault";
}

TEST(Faulty, StallStartsTheOperationLate) {
  run_pair("stall:rank=0,at=1,seconds=0.05", [](Transport& wire) {
    Payload room(8);
    const Seconds start = wire.now();
    if (wire.rank() == 0) {
      wire.send(1, kTag, room);
      wire.send(1, kTag, room);
    } else {
      wire.recv(0, kTag, room);
      wire.recv(0, kTag, room);
    }
    EXPECT_GE(wire.now() - start, Seconds(0.049));
  });
}

TEST(Faulty, StallLongerThanTheTimeoutIsADeadlineAtThePeer) {
  run_pair("stall:rank=0,at=0,seconds=1", [&](Transport& wire) {
    Payload room(8);
    if (wire.rank() == 0) {
      EXPECT_THROW(wire.send(1, kTag, room), TransportError);
      return;
    }
    wire.set_timeout(Seconds(0.03));
    const auto error = test::must_throw<TransportError>([&] { wire.recv(0, kTag, room); });
    EXPECT_EQ(error.kind(), TransportError::Kind::deadline);
  });
}

TEST(Faulty, LanesCountTogetherAndFailOnce) {
  run_pair("drop:rank=0,at=2", [](Transport& wire) {
    const auto lane = wire.lane();
    Payload room(8);
    const auto talk = [&](Transport& on, int number) {
      if (wire.rank() == 0) return on.send(1, kTag, pattern(8, number));
      on.recv(0, kTag, room);
      EXPECT_EQ(room, pattern(8, number));
    };
    talk(wire, 0);
    talk(*lane, 1);
    if (wire.rank() == 0) wire.send(1, kTag, pattern(8, 2));  // the third over both lanes: dropped
    talk(*lane, 3);
    talk(wire, 4);
    talk(wire, 5);
  });
}

TEST(Faulty, RefusesBadSpecsBeforeAnythingStarts) {
  const auto refusal = [](const std::string& fault) {
    return std::string(test::must_throw<ConfigError>([&] {
                         run_pair(fault, [](Transport&) { FAIL() << "started"; });
                       }).what());
  };
  EXPECT_TRUE(
      test::has(refusal("krill:rank=1"), "fault: unknown name (krill); did you mean kill?"));
  EXPECT_TRUE(test::has(refusal("drop:rank=2"), "drop: rank is not allowed (2); use 0 ... 1"));
  EXPECT_TRUE(test::has(refusal("drop:at=-1"), "at is not allowed (-1)"));
  EXPECT_TRUE(test::has(refusal("stall:second=1"), "unknown key (second); did you mean seconds?"));
  EXPECT_TRUE(test::has(refusal("drop:"), "does not start with a key"));
}

}  // namespace
}  // namespace thinwire::transport
