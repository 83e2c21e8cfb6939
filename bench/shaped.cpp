// How well `shaped` keeps the times it imitates, between threads of this machine: against the
// formula, medians by the transport's own clock and by the machine's. The former leaves out late
// wake-ups, the latter shows them, once per row. A busy machine has many; run it on a calm one.
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "thinwire/error.h"
#include "thinwire/launch.h"
#include "thinwire/stats.h"

namespace {

using namespace thinwire;

constexpr Tag kTag{1};

struct Row {
  std::string what;
  Seconds expected{0};
  std::vector<double> imitated, real;  // seconds

  void print() const {
    fmt::print("{:<38} {:>10.3f}", what, expected.count() * 1e3);
    for (const auto& seconds : {imitated, real}) {
      const double median = summarize(seconds).median, error = median - expected.count();
      fmt::print(" {:>10.3f} {:>+8.3f} {:>+7.2f}", median * 1e3, error * 1e3,
                 100 * error / expected.count());
    }
    fmt::print("\n");
  }
};

// When each rank began, if it sends, and ended.
class Moments {
 public:
  explicit Moments(int ranks)
      : started_(static_cast<std::size_t>(ranks)), ended_(started_.size()) {}
  void note(int rank, Seconds start, bool sends, Seconds end) {
    started_[static_cast<std::size_t>(rank)] = sends ? start.count() : 0;
    ended_[static_cast<std::size_t>(rank)] = end.count();
  }
  // From the last sender's start until everybody is through.
  double taken() const {
    return *std::max_element(ended_.begin(), ended_.end()) -
           *std::max_element(started_.begin(), started_.end());
  }

 private:
  std::vector<double> started_, ended_;
};

// What every rank does, all at the same time; says whether it sends.
using Act = std::function<bool(Transport&)>;

Row measure(std::string what, int ranks, const Network& network, Seconds expected, const Act& act) {
  Row row{std::move(what), expected, {}, {}};
  const auto reps = static_cast<int>(std::clamp(2.0 / expected.count(), 7.0, 41.0));
  Moments imitated(ranks), real(ranks);
  std::barrier together(ranks);  // of the threads: one over the network would imitate its times too
  JoinOptions options;
  options.size = ranks;
  options.network = network;
  run_workers("threads", options, [&](Transport& wire) {
    const Runtime& machine = wire.runtime();
    for (int rep = -2; rep < reps; ++rep) {  // two to warm up
      together.arrive_and_wait();
      const Seconds start = wire.now(), real_start = machine.now();
      const bool sends = act(wire);
      imitated.note(wire.rank(), start, sends, wire.now());
      real.note(wire.rank(), real_start, sends, machine.now());
      together.arrive_and_wait();
      if (wire.rank() == 0 && rep >= 0) {
        row.imitated.push_back(imitated.taken());
        row.real.push_back(real.taken());
      }
    }
  });
  return row;
}

bool transfer(Transport& wire, Payload& memory) {
  if (wire.rank() == 0) wire.send(1, kTag, memory);
  if (wire.rank() == 1) wire.wait(wire.post_recv(0, kTag, memory));
  return wire.rank() == 0;
}

std::vector<Payload> memories(int ranks, std::size_t bytes) {
  return std::vector<Payload>(static_cast<std::size_t>(ranks), Payload(bytes));
}

void measure_transfers() {
  for (const double bits : {10e6, 100e6, 1e9}) {
    for (const double seconds : {1e-3, 10e-3, 100e-3}) {
      const auto bytes = static_cast<std::size_t>(bits * seconds / 8);
      const Network network{bits, Seconds(0)};
      auto memory = memories(2, bytes);
      measure(fmt::format("{} bytes at {:g} Mbit/s", bytes, bits / 1e6), 2, network,
              network.transfer_time(bytes),
              [&](Transport& wire) {
                return transfer(wire, memory[static_cast<std::size_t>(wire.rank())]);
              })
          .print();
    }
  }
}

void measure_latencies() {
  for (const double seconds : {0.1e-3, 1e-3, 10e-3}) {
    const Network network{0, Seconds(seconds)};
    measure(fmt::format("empty message, latency {:g} ms", seconds * 1e3), 2, network,
            network.latency,
            [](Transport& wire) {
              Payload nothing;
              return transfer(wire, nothing);
            })
        .print();
  }
}

// Errors that add up show here: many short transfers one after the other.
void measure_sequences() {
  constexpr int kRounds = 50;
  const Network network{1e9, Seconds(0.2e-3)};
  constexpr std::size_t kBytes = 125'000;
  const Seconds one = network.transfer_time(kBytes);
  auto memory = memories(8, kBytes);
  const auto mine = [&](Transport& wire) -> Payload& {
    return memory[static_cast<std::size_t>(wire.rank())];
  };

  measure(fmt::format("{} x 1 ms, one after the other", kRounds), 2, network,
          kRounds * one + network.latency,
          [&](Transport& wire) {
            for (int i = 0; i < kRounds; ++i) transfer(wire, mine(wire));
            return wire.rank() == 0;
          })
      .print();
  measure("4 ranks to one, 5 x 1 ms each", 5, network, 20 * one + network.latency,
          [&](Transport& wire) {
            for (int i = 0; i < (wire.rank() == 0 ? 20 : 5); ++i) {
              if (wire.rank() == 0) wire.recv(kAnyRank, kTag, mine(wire));
              if (wire.rank() != 0) wire.send(0, kTag, mine(wire));
            }
            return wire.rank() != 0;
          })
      .print();
  for (const int ranks : {4, 8}) {
    auto inbox = memories(ranks, kBytes);
    measure(fmt::format("ring of {} ranks, {} rounds of 1 ms", ranks, kRounds), ranks, network,
            kRounds * (one + network.latency),
            [&](Transport& wire) {
              const int next = (wire.rank() + 1) % ranks, last = (wire.rank() + ranks - 1) % ranks;
              Payload& in = inbox[static_cast<std::size_t>(wire.rank())];
              for (int i = 0; i < kRounds; ++i) wire.exchange(next, mine(wire), last, in, kTag);
              return true;
            })
        .print();
  }
}

}  // namespace

int main() try {
  fmt::print("{:<38} {:>10} {:>10} {:>8} {:>7} {:>10} {:>8} {:>7}\n", "", "formula ms", "its clock",
             "error", "%", "real clock", "error", "%");
  measure_transfers();
  measure_latencies();
  measure_sequences();
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  fmt::print(stderr, "shaped: {}\n", error.what());
  return EXIT_FAILURE;
}
