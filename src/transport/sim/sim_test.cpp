// Tests what is specific to the simulator: times follow the formulas of its network, and equal runs
// have equal times.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "base/random.h"
#include "tests/laws.h"
#include "thinwire/launch.h"

namespace thinwire::transport {
namespace {

constexpr Tag kTag{3};
constexpr double kNear = 1e-8;  // seconds; the simulator rounds each event to 1 ns
const Network kWire{1e9, Seconds(0.2e-3)};

void simulate(int size, const std::optional<Network>& network, const Worker& worker) {
  JoinOptions options;
  options.size = size;
  options.network = network;
  run_workers("sim", options, worker);
}

double alone(std::size_t bytes) { return (kWire.latency + kWire.transfer_time(bytes)).count(); }

Received receive(Transport& wire, int from, std::size_t bytes) {
  Payload room(bytes);
  return wire.wait(wire.post_recv(from, kTag, room));
}

TEST(Sim, AMessageTakesLatencyAndTransferTime) {
  for (const std::size_t bytes : {0u, 1u, 1000u, 1'000'000u, 25'000'000u}) {
    simulate(2, kWire, [&](Transport& wire) {
      if (wire.rank() == 0) {
        wire.send(1, kTag, Payload(bytes));
        EXPECT_NEAR(wire.now().count(), kWire.transfer_time(bytes).count(), kNear);
      } else {
        receive(wire, 0, bytes);
        EXPECT_NEAR(wire.now().count(), alone(bytes), kNear);
      }
    });
  }
}

TEST(Sim, WithoutBandwidthLimitOnlyLatencyCounts) {
  const auto arrival = [](const std::optional<Network>& network) {
    double at = -1;
    simulate(2, network, [&](Transport& wire) {
      if (wire.rank() == 0) wire.send(1, kTag, Payload(1 << 20));
      if (wire.rank() == 1) receive(wire, 0, 1 << 20);
      if (wire.rank() == 1) at = wire.now().count();
    });
    return at;
  };
  EXPECT_EQ(arrival(std::nullopt), 0.0);
  EXPECT_NEAR(arrival(Network{0, Seconds(0.03)}), 0.03, kNear);
}

TEST(Sim, TwoSendersShareTheReceiversLink) {
  const std::size_t bytes = 1'000'000;
  simulate(3, kWire, [&](Transport& wire) {
    if (wire.rank() != 0) return wire.send(0, kTag, Payload(bytes));
    receive(wire, 1, bytes);
    receive(wire, 2, bytes);
    EXPECT_NEAR(wire.now().count(), alone(2 * bytes), kNear);
  });
}

TEST(Sim, TwoReceiversShareTheSendersLink) {
  const std::size_t bytes = 1'000'000;
  simulate(3, kWire, [&](Transport& wire) {
    if (wire.rank() != 0) {
      receive(wire, 0, bytes);
      EXPECT_NEAR(wire.now().count(), alone(2 * bytes), kNear);
      return;
    }
    const Payload message(bytes);
    const Pending one = wire.post_send(1, kTag, message), two = wire.post_send(2, kTag, message);
    wire.wait(one);
    wire.wait(two);
  });
}

// When a flow ends, the others get its bandwidth: 1 and 3 MB end after 2 and 4 MB of link time.
TEST(Sim, BandwidthIsSharedFairlyAndFullyUsed) {
  simulate(3, kWire, [&](Transport& wire) {
    if (wire.rank() == 1) return wire.send(0, kTag, Payload(1'000'000));
    if (wire.rank() == 2) return wire.send(0, kTag, Payload(3'000'000));
    receive(wire, 1, 1'000'000);
    EXPECT_NEAR(wire.now().count(), alone(2'000'000), kNear);
    receive(wire, 2, 3'000'000);
    EXPECT_NEAR(wire.now().count(), alone(4'000'000), kNear);
  });
}

TEST(Sim, LinksAreFullDuplex) {
  const std::size_t bytes = 1'000'000;
  for (const int size : {2, 3, 8}) {
    simulate(size, kWire, [&](Transport& wire) {
      Payload room(bytes);
      wire.exchange((wire.rank() + 1) % size, Payload(bytes), (wire.rank() + size - 1) % size, room,
                    kTag);
      EXPECT_NEAR(wire.now().count(), alone(bytes), kNear);
    });
  }
}

// A pipeline has the latency once, and a short message does not overtake a long one.
TEST(Sim, MessagesOfOneStreamFollowOneAnother) {
  const std::size_t sizes[] = {1'000'000, 10, 0, 500'000, 1'000'000};
  simulate(2, kWire, [&](Transport& wire) {
    std::vector<Payload> messages;
    std::vector<Pending> pending;
    messages.reserve(std::size(sizes));
    pending.reserve(std::size(sizes));
    for (const std::size_t bytes : sizes) messages.emplace_back(bytes);
    for (Payload& message : messages) {
      pending.push_back(wire.rank() == 0 ? wire.post_send(1, kTag, message)
                                         : wire.post_recv(0, kTag, message));
    }
    std::size_t so_far = 0;
    for (std::size_t i = 0; i < pending.size(); ++i) {
      wire.wait(pending[i]);
      so_far += sizes[i];
      const Seconds flight = wire.rank() == 0 ? Seconds(0) : kWire.latency;
      EXPECT_NEAR(wire.now().count(), (kWire.transfer_time(so_far) + flight).count(), kNear);
    }
  });
}

TEST(Sim, LanesShareTheLink) {
  const std::size_t bytes = 1'000'000;
  simulate(2, kWire, [&](Transport& wire) {
    const auto other = wire.lane();
    const auto swap = [&](Transport& lane) {
      Payload room(bytes);
      lane.exchange(1 - lane.rank(), Payload(bytes), 1 - lane.rank(), room, kTag);
      EXPECT_NEAR(lane.now().count(), alone(2 * bytes), kNear);
    };
    const auto task = wire.launch([&] { swap(*other); });
    swap(wire);
    task->join();
  });
}

TEST(Sim, AMessageDepartsBeforeItsReceiveIsPosted) {
  simulate(2, kWire, [&](Transport& wire) {
    if (wire.rank() == 0) {
      wire.send(1, kTag, Payload(1'000'000));
      EXPECT_NEAR(wire.now().count(), 5, kNear) << "a send is complete when its receive is posted";
    } else {
      wire.sleep(Seconds(5));
      receive(wire, 0, 1'000'000);
      EXPECT_NEAR(wire.now().count(), 5, kNear) << "the message had arrived before";
    }
  });
}

// Hours of virtual time take no real time, in a sleep and in a wait that times out.
TEST(Sim, TimeIsVirtual) {
  simulate(2, kWire, [&](Transport& wire) {
    EXPECT_EQ(wire.now().count(), 0.0);
    wire.set_timeout(Seconds(7200));
    if (wire.rank() == 1) return wire.sleep(Seconds(10'000));
    std::byte room[1];
    EXPECT_THROW(wire.recv(1, kTag, room), TransportError);
    EXPECT_NEAR(wire.now().count(), 7200, kNear);
  });
}

// Only silence counts against the deadline, not a slow link.
TEST(Sim, ALongTransferOutlivesTheDeadline) {
  simulate(2, Network{1e6, Seconds(0.1)}, [&](Transport& wire) {
    wire.set_timeout(Seconds(1));
    if (wire.rank() == 0) wire.send(1, kTag, Payload(10'000'000));
    if (wire.rank() == 1) receive(wire, 0, 10'000'000);
    EXPECT_GT(wire.now().count(), 79.9);
  });
}

TEST(Sim, AllBlockedIsADeadlineNotADeadlock) {
  simulate(4, kWire, [&](Transport& wire) {
    std::byte room[1];
    const int next = (wire.rank() + 1) % wire.size();
    try {
      wire.recv(next, kTag, room);
      ADD_FAILURE() << "received a message that no rank sent";
    } catch (const TransportError& error) {
      EXPECT_EQ(error.kind(), TransportError::Kind::deadline);
      EXPECT_EQ(error.peer(), next);
    }
    wire.sleep(Seconds(1));  // if a rank ended now, the error would be another one
  });
}

TEST(Sim, AFailingWorkerIsNamedToAllOthers) {
  int notified = 0;
  const auto worker = [&](Transport& wire) {
    wire.sleep(Seconds(wire.rank() * 1e-3));
    if (wire.rank() == 2) throw WireError("rank 2 is broken");
    try {
      receive(wire, (wire.rank() + 1) % 2, 100);
    } catch (const TransportError& error) {
      EXPECT_EQ(error.kind(), TransportError::Kind::lost);
      EXPECT_EQ(error.peer(), 2);
      EXPECT_NE(std::string(error.what()).find("rank 2 is broken"), std::string::npos);
      ++notified;
      throw;
    }
  };
  try {
    simulate(5, kWire, worker);
    ADD_FAILURE() << "no error was thrown";
  } catch (const WireError& error) {
    EXPECT_STREQ(error.what(), "rank 2 is broken");
  }
  EXPECT_EQ(notified, 4);
}

TEST(Sim, APeerThatFinishedIsNamed) {
  simulate(3, kWire, [&](Transport& wire) {
    if (wire.rank() == 2) return wire.send(1, kTag, Payload(1'000'000));
    if (wire.rank() == 1) receive(wire, 2, 1'000'000);  // sent in full before its sender left
    if (wire.rank() == 0) {
      try {
        receive(wire, 2, 1);
        ADD_FAILURE() << "received a message that no rank sent";
      } catch (const TransportError& error) {
        EXPECT_EQ(error.kind(), TransportError::Kind::lost);
        EXPECT_EQ(error.peer(), 2);
        EXPECT_NE(std::string(error.what()).find("already finished"), std::string::npos);
      }
    }
  });
}

// Actors share an OS thread; an actor may wait inside a catch block while another one throws.
TEST(Sim, HandlersMayWait) {
  simulate(8, kWire, [&](Transport& wire) {
    for (int i = 0; i < 20; ++i) {
      try {
        throw WireError(std::to_string(wire.rank()));
      } catch (const WireError& error) {
        std::byte out{}, in{};
        const int peer = wire.rank() ^ (1 << (i % 3));
        wire.exchange(peer, Bytes(&out, 1), peer, MutBytes(&in, 1), kTag);
        wire.sleep(Seconds(1e-3 * ((wire.rank() * 5) % 8)));
        EXPECT_EQ(error.what(), std::to_string(wire.rank()));
      }
    }
    EXPECT_EQ(std::current_exception(), nullptr);
  });
}

TEST(Sim, DestroyingATaskJoinsIt) {
  simulate(2, kWire, [&](Transport& wire) {
    {
      const auto task = wire.launch([&] { wire.sleep(Seconds(3)); });
    }
    EXPECT_NEAR(wire.now().count(), 3, kNear);
    const auto task = wire.launch([&] { wire.sleep(Seconds(1)); });
    EXPECT_FALSE(task->finished());
    wire.sleep(Seconds(2));
    EXPECT_TRUE(task->finished());
    EXPECT_NEAR(wire.now().count(), 5, kNear);
  });
}

// Each of 1024 workers exchanges messages with its neighbours, once itself and once by a task on
// another lane.
TEST(Sim, ManyWorkers) {
  const int size = 1024;
  const std::size_t bytes = 10'000;
  int tasks = 0;
  simulate(size, kWire, [&](Transport& wire) {
    const auto step = [&](Transport& lane) {
      const int next = (lane.rank() + 1) % size, last = (lane.rank() + size - 1) % size;
      Payload out(bytes, static_cast<std::byte>(lane.rank())), in(bytes);
      const Received got = lane.exchange(next, out, last, in, kTag);
      EXPECT_EQ(got.from, last);
      EXPECT_EQ(in, Payload(bytes, static_cast<std::byte>(last)));
    };
    step(wire);
    EXPECT_NEAR(wire.now().count(), alone(bytes), kNear);
    const auto other = wire.lane();
    wire.launch([&] {
          step(*other);
          ++tasks;
        })
        ->join();
    EXPECT_NEAR(wire.now().count(), 2 * alone(bytes), 2 * kNear);
  });
  EXPECT_EQ(tasks, size);
}

struct Event {
  int rank;
  int from;
  double at;
  bool operator==(const Event&) const = default;
};

// Runs workers that exchange messages of random sizes, with random pauses, on several lanes and
// with receives from any rank. Returns what happened when.
std::vector<Event> random_traffic(std::uint64_t seed, int size) {
  std::vector<Event> events;
  simulate(size, Network{1e8, Seconds(70e-6)}, [&](Transport& wire) {
    const auto draw = [&](std::uint64_t i) {
      return base::philox(seed, static_cast<std::uint64_t>(wire.rank()), i, base::Purpose::test)[0];
    };
    const auto talk = [&](Transport& lane, std::uint64_t salt) {
      Payload out(50'000), in(50'000);
      for (std::uint64_t i = 0; i < 20; ++i) {
        lane.sleep(Seconds(1e-7 * (draw(2 * i + salt) % 5000)));
        const std::size_t bytes = draw(2 * i + 1 + salt) % out.size();
        const Received got =
            lane.exchange((lane.rank() + 1) % size, Bytes(out).first(bytes), kAnyRank, in, kTag);
        events.push_back({lane.rank(), got.from, lane.now().count()});
      }
    };
    const auto other = wire.lane();
    const auto task = wire.launch([&] { talk(*other, 1000); });
    talk(wire, 0);
    task->join();
  });
  return events;
}

TEST(Sim, EqualRunsAreEqualToTheLastBit) {
  const std::vector<Event> first = random_traffic(1, 7);
  EXPECT_EQ(first.size(), 7u * 40);
  EXPECT_NE(random_traffic(2, 7), first);
  random_traffic(3, 3);
  EXPECT_EQ(random_traffic(1, 7), first);
}

TEST(Sim, ManyRunsOfDifferentSizesAndNetworks) {
  for (int run = 0; run < 300; ++run) {
    const int size = 1 + run % 9;
    const Network network{1e6 * (1 + run % 4), Seconds(1e-3 * (run % 3))};
    simulate(size, network, [&](Transport& wire) {
      if (size == 1) return;
      Payload room(1000);
      wire.exchange((wire.rank() + 1) % size, Payload(1000), (wire.rank() + size - 1) % size, room,
                    kTag);
      EXPECT_NEAR(wire.now().count(), (network.latency + network.transfer_time(1000)).count(),
                  kNear);
    });
  }
}

TEST(Sim, ThePlatformGrows) {
  for (const int size : {3, 1030, 2}) {
    int workers = 0;
    simulate(size, kWire, [&](Transport& wire) {
      if (wire.rank() == 0) wire.send(size - 1, kTag, Payload(1000));
      if (wire.rank() == size - 1) receive(wire, 0, 1000);
      ++workers;
    });
    EXPECT_EQ(workers, size);
  }
}

TEST(Sim, ThreadsTakeTurns) {
  std::jthread threads[4];
  for (std::jthread& thread : threads) {
    thread = std::jthread([] {
      simulate(3, kWire, [](Transport& wire) {
        EXPECT_EQ(wire.now().count(), 0.0);
        wire.sleep(Seconds(1));
      });
    });
  }
}

TEST(Sim, RefusesWhatItCannotDo) {
  EXPECT_THROW(simulate(100'000, kWire, [](Transport&) {}), ConfigError);
  EXPECT_THROW(simulate(1, kWire, [](Transport&) { simulate(1, kWire, [](Transport&) {}); }),
               std::logic_error);
}

TEST(Sim, LeavesTheSignalsToTheProgram) {
  constexpr int kSignals[] = {SIGINT, SIGSEGV, SIGBUS};
  const auto handlers = [&] {
    std::vector<void (*)(int)> out;
    for (const int signal : kSignals) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      out.push_back(action.sa_handler);
    }
    return out;
  };
  const auto before = handlers();
  simulate(2, kWire, [](Transport&) {});
  EXPECT_EQ(handlers(), before);
}

// Checks the laws, which law_test.cpp checks without a network, on a slow network.
TEST(Sim, LawsHoldOnANetwork) {
  for (const laws::Law& law : laws::all()) {
    if (law.name == "huge" || law.name == "sizes") continue;  // a network only makes these slower
    EXPECT_NO_THROW(simulate(law.ranks, kWire, law.check)) << law.name;
  }
}

}  // namespace
}  // namespace thinwire::transport
