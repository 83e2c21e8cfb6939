// Tests the public functions of Transport, first with a scripted backend, then on `threads`.
#include "thinwire/transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <numeric>
#include <thread>

#include "testing/expect.h"
#include "transport/backends.h"

namespace thinwire::transport {
namespace {

constexpr Tag kTag{3};
const Payload kEight(8, std::byte{1});

class ManualClock final : public Runtime {
 public:
  Seconds now() const override { return time; }
  void sleep(Seconds duration) override { time += duration; }
  std::unique_ptr<Task> launch(std::function<void()>) override { return nullptr; }
  std::unique_ptr<Event> make_event() override { return system_runtime().make_event(); }
  Seconds time{100};
};

// A backend of rank 1 of 3. Every wait takes 1.5 s and then calls the function that the test has
// set.
class Scripted final : public Transport {
 public:
  explicit Scripted(ManualClock& clock) : Transport(1, {"alpha", "beta", "gamma"}, clock) {}

  using Transport::DeadlinePassed;
  using Transport::PeerLost;
  using Transport::WrongSize;

  std::function<Received()> outcome = [] { return Received{0, 8}; };
  std::function<void()> on_post = [] {};
  int posted = 0;
  int cancelled = 0;

 private:
  std::uint32_t do_post_send(int, Tag, Bytes) override { return post(); }
  std::uint32_t do_post_recv(int, Tag, MutBytes, Fit) override { return post(); }
  std::uint32_t post() {
    on_post();
    return static_cast<std::uint32_t>(posted++);
  }
  Received do_wait(const Pending&, Seconds) override {
    sleep(Seconds(1.5));
    return outcome();
  }
  void do_cancel() noexcept override { ++cancelled; }
  std::unique_ptr<Transport> do_lane() override { return nullptr; }
  std::unique_ptr<Transport> do_clone_handle() override { return nullptr; }
};

void expect_fields(const Error& error, const ErrorFields& expected) {
  const ErrorFields& found = error.fields();
  EXPECT_EQ(to_string(found.kind), to_string(expected.kind));
  EXPECT_EQ(found.rank, expected.rank);
  EXPECT_EQ(found.peer, expected.peer);
  EXPECT_EQ(found.host, expected.host);
  EXPECT_EQ(found.operation, expected.operation);
  EXPECT_EQ(found.bytes_done, expected.bytes_done);
  EXPECT_EQ(found.bytes_total, expected.bytes_total);
  EXPECT_EQ(found.seconds, expected.seconds);
  EXPECT_EQ(to_string(found.remedy), to_string(expected.remedy));
}

class Shell : public testing::Test {
 protected:
  ManualClock clock;
  Scripted wire{clock};
  Payload room = Payload(20'000);
};

TEST_F(Shell, ADeadlineNamesAllThatIsKnown) {
  wire.set_timeout(Seconds(1.5));
  wire.outcome = []() -> Received { throw Scripted::DeadlinePassed{3}; };
  const auto error = test::must_throw<TransportError>([&] { wire.send(2, kTag, kEight); });
  EXPECT_EQ(error.kind(), TransportError::Kind::deadline);
  EXPECT_EQ(error.peer(), 2);
  expect_fields(error, {ErrorKind::deadline, 1, 2, "gamma", "send", 3, 8, Seconds(1.5),
                        Remedy::raise_timeout});
  EXPECT_STREQ(error.what(),
               "rank 1 (beta): no progress for 1.50 s while sending to rank 2 (gamma) (waited "
               "1.50 s, 3 bytes of 8 bytes done)");
}

TEST_F(Shell, ADeadlineOfAReceiveFromAnyRankBlamesNobody) {
  wire.outcome = []() -> Received { throw Scripted::DeadlinePassed{}; };
  const auto error = test::must_throw<TransportError>([&] { wire.recv(kAnyRank, kTag, room); });
  expect_fields(error, {ErrorKind::deadline, 1, kNoRank, "", "receive", 0, room.size(),
                        Seconds(1.5), Remedy::raise_timeout});
  EXPECT_TRUE(test::has(error.what(), "no progress for 60 s while receiving from any rank"));
}

TEST_F(Shell, ALossNamesTheLostRankAndTheReason) {
  wire.outcome = []() -> Received { throw Scripted::PeerLost{2, "connection reset.", 5}; };
  const auto error = test::must_throw<TransportError>(
      [&] { wire.wait(wire.post_recv(0, kTag, room, Fit::exact)); });
  expect_fields(error, {ErrorKind::lost, 1, 2, "gamma", "receive", 5, room.size(), Seconds(1.5),
                        Remedy::none});
  EXPECT_STREQ(error.what(),
               "rank 1 (beta): lost rank 2 (gamma) while receiving from rank 0 (alpha) (waited "
               "1.50 s, 5 bytes of 0.02 MiB done): connection reset; see the output of rank 2");
}

TEST_F(Shell, ARankThatItsPeersGaveUpBlamesItself) {
  wire.outcome = []() -> Received { throw Scripted::PeerLost{1, "no progress for 1.0 s", 5}; };
  const auto error = test::must_throw<TransportError>([&] { wire.send(0, kTag, kEight); });
  expect_fields(error,
                {ErrorKind::lost, 1, 1, "beta", "send", 5, 8, Seconds(1.5), Remedy::raise_timeout});
  EXPECT_TRUE(
      test::has(error.what(), "rank 1 (beta): given up by its peers while sending to rank"));
}

TEST_F(Shell, ALossWithoutAKnownRank) {
  wire.outcome = []() -> Received { throw Scripted::PeerLost{kNoRank, "all left"}; };
  const auto error = test::must_throw<TransportError>([&] { wire.recv(kAnyRank, kTag, room); });
  expect_fields(error, {ErrorKind::lost, 1, kNoRank, "", "receive", 0, room.size(), Seconds(1.5),
                        Remedy::none});
  EXPECT_TRUE(test::has(error.what(), "lost a peer while receiving from any rank"));
  EXPECT_TRUE(test::has(error.what(), ": all left; see the output of each rank"));
}

TEST_F(Shell, AWrongSizeNamesBothSizes) {
  wire.outcome = []() -> Received { throw Scripted::WrongSize{0, 30'000}; };
  const auto error = test::must_throw<WireError>([&] { wire.recv(kAnyRank, kTag, room); });
  expect_fields(error, {ErrorKind::wire, 1, 0, "alpha", "receive", 30'000, room.size(),
                        std::nullopt, Remedy::match_options});
  EXPECT_STREQ(error.what(),
               "rank 1 (beta): wrong message size while receiving from any rank (rank 0 (alpha) "
               "sent 0.03 MiB, at most 0.02 MiB expected); all ranks must run the same version, "
               "model and options");
}

TEST_F(Shell, AnExactReceiveRefusesLess) {
  EXPECT_EQ(wire.recv(0, kTag, room).bytes, 8u);
  const auto error =
      test::must_throw<WireError>([&] { wire.wait(wire.post_recv(0, kTag, room, Fit::exact)); });
  expect_fields(error, {ErrorKind::wire, 1, 0, "alpha", "receive", 8, room.size(), std::nullopt,
                        Remedy::match_options});
}

TEST_F(Shell, EveryCallAfterAFailureRepeatsIt) {
  const Pending open = wire.post_recv(0, kTag, room);
  wire.outcome = []() -> Received { throw Scripted::PeerLost{0, "gone"}; };
  const std::string text =
      test::must_throw<TransportError>([&] { wire.send(0, kTag, kEight); }).what();
  EXPECT_EQ(wire.cancelled, 1);
  const int posted = wire.posted;
  wire.outcome = [] { return Received{0, 8}; };
  const std::function<void()> calls[] = {
      [&] { wire.wait(open); },
      [&] { wire.send(2, kTag, kEight); },
      [&] { wire.recv(2, kTag, room); },
      [&] { wire.exchange(2, kEight, 2, room, kTag); },
      [&] { wire.post_send(2, kTag, kEight); },
      [&] { wire.post_recv(2, kTag, room); },
      [&] { wire.lane(); },
  };
  for (const auto& call : calls) EXPECT_EQ(test::must_throw<TransportError>(call).what(), text);
  EXPECT_EQ(wire.posted, posted) << "the backend was called again";
  EXPECT_EQ(wire.cancelled, 1);
}

TEST_F(Shell, APostThatFailsEndsTheLaneToo) {
  const Pending open = wire.post_recv(0, kTag, room);
  wire.on_post = [] { throw Scripted::PeerLost{2, "no route"}; };
  const auto error = test::must_throw<TransportError>([&] { wire.post_send(2, kTag, kEight); });
  EXPECT_EQ(error.peer(), 2);
  EXPECT_EQ(error.fields().operation, "send");
  EXPECT_EQ(wire.cancelled, 1) << "the posted receive still holds memory";
  EXPECT_EQ(test::must_throw<TransportError>([&] { wire.wait(open); }).what(),
            std::string(error.what()));
}

TEST_F(Shell, AnErrorOfAWrappedTransportPassesUnchanged) {
  wire.outcome = []() -> Received { throw WireError("from below"); };
  EXPECT_STREQ(test::must_throw<WireError>([&] { wire.send(0, kTag, kEight); }).what(),
               "from below");
  EXPECT_EQ(wire.cancelled, 1);
}

TEST_F(Shell, RefusesPeersAndTagsThatDoNotExist) {
  for (const int peer : {-2, kAnyRank, 1, 3}) {
    EXPECT_THROW(wire.post_send(peer, kTag, kEight), std::logic_error) << peer;
  }
  for (const int peer : {-2, 1, 3}) {
    EXPECT_THROW(wire.post_recv(peer, kTag, room), std::logic_error) << peer;
  }
  EXPECT_THROW(wire.post_send(0, Tag{2 * kTagLimit}, kEight), std::logic_error);
  EXPECT_THROW(wire.exchange(1, kEight, 0, room, kTag), std::logic_error);
  EXPECT_THROW(wire.exchange(0, kEight, 1, room, kTag), std::logic_error);
  EXPECT_EQ(wire.posted, 0) << "a refused exchange left its receive posted";
  wire.send(0, kTag, kEight);  // a refused call does not end the lane
}

TEST_F(Shell, CountsWhatWasWaitedFor) {
  const Pending sent = wire.post_send(0, kTag, kEight);
  EXPECT_EQ(wire.traffic().messages_sent, 0u);
  const Received of_send = wire.wait(sent);
  EXPECT_EQ(of_send.from, 1);
  EXPECT_EQ(of_send.bytes, 8u);
  wire.exchange(0, room, 0, room, kTag);
  EXPECT_EQ(wire.traffic().messages_sent, 2u);
  EXPECT_EQ(wire.traffic().bytes_sent, 8 + room.size());
  EXPECT_EQ(wire.traffic().messages_received, 1u);
  EXPECT_EQ(wire.traffic().bytes_received, 8u);
  wire.outcome = []() -> Received { throw Scripted::PeerLost{0, "gone"}; };
  EXPECT_THROW(wire.send(0, kTag, kEight), TransportError);
  EXPECT_EQ(wire.traffic().messages_sent, 2u);
}

TEST_F(Shell, RefusesInvalidTimeouts) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double seconds : {0.0, -1.0, std::nan(""), kInfinity, -kInfinity, 1.1e6, 1e300}) {
    EXPECT_THROW(wire.set_timeout(Seconds(seconds)), ConfigError) << seconds;
  }
  EXPECT_STREQ(test::must_throw<ConfigError>([&] { wire.set_timeout(Seconds(-1)); }).what(),
               "timeout: out of range (-1 s); it must be more than 0 and at most 1000000 s, for "
               "example 60 s");
  EXPECT_EQ(wire.timeout(), Seconds(60));
  wire.set_timeout(Transport::kLongestTimeout);
  EXPECT_EQ(wire.timeout(), Transport::kLongestTimeout);
}

TEST_F(Shell, ScratchGrowsAndStays) {
  const auto small = wire.scratch(100);
  EXPECT_EQ(small.size(), 100u);
  EXPECT_EQ(wire.scratch(1000).size(), 1000u);
  const auto* address = wire.scratch(0).data();
  EXPECT_EQ(wire.scratch(1000).data(), address);
}

BackendOptions group(int size) {
  BackendOptions options;
  options.size = size;
  return options;
}

TEST(Threads, AThrowingWorkerEndsTheGroup) {
  std::atomic<int> survivors{0};
  const auto error = test::must_throw<WireError>([&] {
    run_workers("threads", group(4), [&](Transport& wire) {
      if (wire.rank() == 2) throw WireError("disk full.");
      // These ranks wait for each other, not for the failed rank. Each of them must be notified
      // nevertheless.
      const int peer = wire.rank() == 0 ? 1 : 0;
      std::byte room[8];
      const auto lost = test::must_throw<TransportError>([&] { wire.recv(peer, kTag, room); });
      EXPECT_EQ(lost.kind(), TransportError::Kind::lost);
      EXPECT_EQ(lost.peer(), 2);
      EXPECT_EQ(lost.fields().rank, wire.rank());
      EXPECT_EQ(lost.fields().host, "this process");
      EXPECT_EQ(lost.fields().operation, "receive");
      EXPECT_TRUE(test::has(lost.what(), ": disk full; see the output of rank 2"));
      survivors += 1;
      throw lost;
    });
  });
  EXPECT_STREQ(error.what(), "disk full.");
  EXPECT_EQ(survivors, 3);
}

TEST(Threads, AWorkerMayThrowAnything) {
  EXPECT_THROW(run_workers("threads", group(2),
                           [](Transport& wire) {
                             if (wire.rank() == 0) throw 42;
                             std::byte room[8];
                             wire.recv(0, kTag, room);
                           }),
               int);
}

TEST(Threads, ARankThatFinishedIsNamed) {
  run_workers("threads", group(3), [](Transport& wire) {
    if (wire.rank() == 1) return;
    Payload room(8);
    const auto lost = wire.rank() == 0
                          ? test::must_throw<TransportError>([&] { wire.send(1, kTag, room); })
                          : test::must_throw<TransportError>([&] { wire.recv(1, kTag, room); });
    EXPECT_EQ(lost.kind(), TransportError::Kind::lost);
    EXPECT_EQ(lost.peer(), 1);
    EXPECT_TRUE(test::has(lost.what(), "it has already finished"));
  });
}

TEST(Threads, AReceiveFromAnyRankWaitsWhileARankCanSend) {
  run_workers("threads", group(3), [](Transport& wire) {
    Payload room(8);
    if (wire.rank() == 1) return;
    if (wire.rank() == 2) return wire.send(0, kTag, room);
    EXPECT_EQ(wire.recv(kAnyRank, kTag, room).from, 2);
    const auto lost = test::must_throw<TransportError>([&] { wire.recv(kAnyRank, kTag, room); });
    EXPECT_EQ(lost.kind(), TransportError::Kind::lost);
    EXPECT_EQ(lost.peer(), kNoRank);
    EXPECT_TRUE(test::has(lost.what(), "all other ranks have already finished"));
  });
}

TEST(Threads, RefusesInvalidGroups) {
  const Worker nothing = [](Transport&) { FAIL() << "started"; };
  EXPECT_THROW(run_workers("threads", group(0), nothing), ConfigError);
  BackendOptions outside = group(2);
  outside.rank = 2;
  EXPECT_THROW(run_workers("threads", outside, nothing), ConfigError);
  for (const double scale : {0.0, -1.0, 2.0}) {  // 2 is valid on `sim` only
    BackendOptions heavy = group(2);
    heavy.payload_scale = scale;
    EXPECT_THROW(run_workers("threads", heavy, nothing), ConfigError) << scale;
  }
  BackendOptions endless = group(2);
  endless.timeout = Seconds(INFINITY);
  EXPECT_THROW(run_workers("threads", endless, nothing), ConfigError);
  EXPECT_TRUE(test::has(
      test::must_throw<ConfigError>([&] { run_workers("thread", group(1), nothing); }).what(),
      "transport: unknown name (thread); did you mean threads?"));
}

// After a failed exchange the transport does not use its memory any more: a peer that posts later
// finds no operation. The sanitizers detect a violation; the wrappers have memory of their own.
class ReleasesMemory : public testing::TestWithParam<std::string> {};

TEST_P(ReleasesMemory, BuffersOfAFailedExchange) {
  BackendOptions options = group(2);
  if (GetParam() == "shaped") options.network = Network{1e9, Seconds(1e-3)};
  if (GetParam() == "faulty") options.fault = "stall:rank=0,at=0,seconds=0";
  std::promise<void> freed;
  run_workers("threads", options, [&](Transport& wire) {
    if (wire.rank() == 0) {
      wire.set_timeout(Seconds(0.05));
      {
        const Payload out(10'000, std::byte{7});
        Payload in(10'000);
        EXPECT_THROW(wire.exchange(1, out, 1, in, kTag), TransportError);
      }
      freed.set_value();
      return;
    }
    ASSERT_EQ(freed.get_future().wait_for(Seconds(30)), std::future_status::ready);
    wire.set_timeout(Seconds(0.05));
    Payload out(10'000, std::byte{9}), in(10'000, std::byte{5});
    EXPECT_THROW(wire.exchange(0, out, 0, in, kTag), TransportError);
    EXPECT_EQ(in, Payload(10'000, std::byte{5})) << "received bytes from freed memory";
  });
}

INSTANTIATE_TEST_SUITE_P(All, ReleasesMemory, testing::Values("bare", "shaped", "faulty"),
                         [](const auto& wrapper) { return wrapper.param; });

// A receiver that posts while the sender fails gets messages in order up to some number, and then
// the loss. It never gets a later message in place of one that was withdrawn.
void fails_while_its_messages_are_received(
    const std::function<void(Transport&, const Pending&)>& fail) {
  std::atomic<bool> posted{false};
  std::vector<std::uint32_t> numbers(100);  // the transport uses it until it has ended
  std::iota(numbers.begin(), numbers.end(), 0u);
  const auto send_many = [&](Transport& wire) {
    std::vector<Pending> sends;
    for (const std::uint32_t& number : numbers) {
      sends.push_back(wire.post_send(1, kTag, std::as_bytes(std::span(&number, 1))));
    }
    posted = true;
    for (const Pending& send : sends) fail(wire, send);
  };
  const auto receive_all = [&](Transport& wire) {
    while (!posted) std::this_thread::yield();
    for (std::uint32_t expected = 0;; ++expected) {
      std::uint32_t number = 0;
      wire.recv(0, kTag, std::as_writable_bytes(std::span(&number, 1)));
      ASSERT_EQ(number, expected);
    }
  };
  EXPECT_THROW(
      run_workers("threads", group(2),
                  [&](Transport& wire) { wire.rank() == 0 ? send_many(wire) : receive_all(wire); }),
      Error);
}

TEST(Threads, ARankThatThrowsTakesBackAllItPostedAtOnce) {
  for (int turn = 0; turn < 100; ++turn) {
    fails_while_its_messages_are_received(
        [](Transport&, const Pending&) { throw WireError("disk full."); });
  }
}

TEST(Threads, ARankThatIsLateTakesBackAllItPostedAtOnce) {
  for (int turn = 0; turn < 100; ++turn) {
    fails_while_its_messages_are_received([](Transport& wire, const Pending& send) {
      wire.set_timeout(Seconds(1e-6));
      wire.wait(send);
    });
  }
}

TEST(Threads, ALaneWithdrawsItsOperationsWhenItIsDestroyed) {
  run_workers("threads", group(2), [](Transport& wire) {
    const auto lane = wire.lane();
    Payload memory(1000);
    if (wire.rank() == 0) {
      // The operation is not waited for; the lane withdraws it.
      const auto abandoned = wire.lane();
      abandoned->post_send(1, kTag, memory);
    } else {
      wire.lane();
    }
    const int peer = 1 - wire.rank();
    lane->exchange(peer, kEight, peer, memory, kTag);
  });
}

TEST(Task, DestructionJoins) {
  std::atomic<bool> ran{false};
  {
    const auto task = system_runtime().launch([&] { ran = true; });
  }
  EXPECT_TRUE(ran);
  {
    const auto task = system_runtime().launch([] { throw WireError("unseen"); });
  }
}

}  // namespace
}  // namespace thinwire::transport
