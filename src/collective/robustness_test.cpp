// Every collective on lanes, through `shaped`, with a rank that fails, and without allocations.
#include <gtest/gtest.h>

#include <atomic>

#include "testing/allocations.h"
#include "testing/ranks.h"
#include "tests/collective_laws.h"
#include "thinwire/collective.h"
#include "transport/backends.h"

namespace thinwire::collective {
namespace {

// A merge whose values grow by ten bytes with each combination, up to 5910 bytes.
struct Longer {
  void encode(const Payload& value, Payload& out) {
    out.insert(out.end(), value.begin(), value.end());
  }
  void decode(Bytes in, Payload& out) {
    out.reserve(6000);
    out.assign(in.begin(), in.end());
  }
  void combine(const Payload& lower, const Payload& higher, Payload& out) {
    out.reserve(6000);
    out = lower;
    if (out.size() < 5900) out.insert(out.end(), higher.begin(), higher.begin() + 10);
  }
};

class EachCollective : public testing::TestWithParam<laws::CollectiveLaw> {};
INSTANTIATE_TEST_SUITE_P(All, EachCollective,
                         testing::ValuesIn(laws::collectives().begin(), laws::collectives().end()),
                         [](const auto& law) { return std::string(law.param.name); });

TEST_P(EachCollective, WorksOnTwoLanesAtOnce) {
  test::on_ranks(5, [&](Transport& wire) {
    const std::unique_ptr<Transport> lane = wire.lane();
    const std::unique_ptr<Task> task = wire.launch([&] {
      for (const std::size_t n : {10u, 300'000u, 77u}) GetParam().check(*lane, n);
    });
    for (const std::size_t n : {250'000u, 1u, 1000u}) GetParam().check(wire, n);
    task->join();
  });
}

TEST_P(EachCollective, WorksThroughAShapedNetwork) {
  transport::BackendOptions options;
  options.size = 4;
  options.network = Network{10e9, Seconds(50e-6)};
  run_workers("threads", options, [&](Transport& wire) {
    for (const std::size_t n : {0u, 5u, 300'000u}) GetParam().check(wire, n);
  });
}

// Rank 2 fails at one of its operations. Its error has the reason, and the error of every other
// rank names rank 2.
TEST_P(EachCollective, ARankThatFailsIsNamedByAllOthers) {
  for (const int at : {0, 1, 3, 6}) {
    transport::BackendOptions options;
    options.size = 5;
    options.fault = "fail:rank=2,at=" + std::to_string(at);
    std::atomic<int> named{0};
    EXPECT_THROW(run_workers("threads", options,
                             [&](Transport& wire) {
                               try {
                                 for (int turn = 0; turn < 3; ++turn) {
                                   GetParam().check(wire, 200'000);
                                   barrier(wire);
                                 }
                               } catch (const TransportError& error) {
                                 EXPECT_EQ(error.kind(), TransportError::Kind::lost);
                                 EXPECT_EQ(error.peer(), 2) << error.what();
                                 ++named;
                               }
                             }),
                 Error);
    EXPECT_EQ(named, 4);
  }
}

// A message that never arrives causes an error within the timeout, not a hang. In a barrier the
// error may come only at the end, because all messages of a barrier are alike.
TEST_P(EachCollective, ALostMessageIsAnError) {
  transport::BackendOptions options;
  options.size = 4;
  options.timeout = Seconds(0.3);
  options.fault = "drop:rank=1,at=2";
  std::atomic<int> failed{0};
  EXPECT_THROW(run_workers("threads", options,
                           [&](Transport& wire) {
                             try {
                               for (int turn = 0; turn < 3; ++turn) {
                                 GetParam().check(wire, 1000);
                                 barrier(wire);
                               }
                             } catch (const Error&) {  // a timeout, or a message of the wrong size
                               ++failed;
                               throw;
                             }
                           }),
               Error);
  EXPECT_GE(failed, GetParam().name == "barrier" ? 1 : 4);
}

void ends_in_an_error(int size, const Worker& worker) {
  transport::BackendOptions options;
  options.size = size;
  options.timeout = Seconds(0.3);
  std::atomic<int> failed{0};
  EXPECT_THROW(run_workers("threads", options,
                           [&](Transport& wire) {
                             try {
                               worker(wire);
                             } catch (const Error&) {
                               ++failed;
                               throw;
                             }
                           }),
               Error);
  EXPECT_GT(failed, 0);
}

TEST(Mismatch, DifferentCollectivesAreAnError) {
  const std::vector<void (*)(Transport&)> calls = {
      [](Transport& wire) {
        std::vector<std::uint32_t> data(4);
        allreduce_sum(wire, data, Route::ring);
      },
      [](Transport& wire) {
        std::vector<std::uint32_t> data(4);
        allreduce_sum(wire, data, Route::doubling);
      },
      [](Transport& wire) {
        std::vector<std::uint32_t> data(4);
        allreduce_max(wire, data, Route::doubling);
      },
      [](Transport& wire) {
        std::vector<float> data(4);
        allreduce_sum(wire, data, Route::doubling);
      },
      [](Transport& wire) {
        std::vector<float> data(4);
        reduce_scatter_sum(wire, data);
      },
      [](Transport& wire) {
        Payload all(32);
        allgather(wire, MutBytes(all).first(16), all);
      },
      [](Transport& wire) {
        Payload all;
        std::vector<std::uint64_t> lengths(2);
        allgather(wire, Payload(16), all, lengths);
      },
      [](Transport& wire) { barrier(wire); },
      [](Transport& wire) {
        Payload data(16);
        broadcast(wire, data);
      },
      [](Transport& wire) {
        Payload value(16);
        Longer rule;
        ButterflyMerge<Payload>().run(wire, value, 16, rule);
      },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::size_t other = (i + 1) % calls.size();
    ends_in_an_error(2, [&](Transport& wire) { calls[wire.rank() == 0 ? i : other](wire); });
  }
}

TEST(Mismatch, DifferentSizesAreAnError) {
  for (const Route route : {Route::ring, Route::doubling}) {
    ends_in_an_error(3, [&](Transport& wire) {
      std::vector<float> data(wire.rank() == 1 ? 999 : 1000);
      allreduce_sum(wire, data, route);
    });
  }
  ends_in_an_error(2, [](Transport& wire) {
    Payload data(wire.rank() == 1 ? 999 : 1000);
    broadcast(wire, data);
  });
}

// Calls every collective once, with memory that was allocated before.
struct Calls {
  explicit Calls(int size)
      : floats(size < 10 ? 100'000 : 2000),
        shorts(1001),
        pieces(10 * static_cast<std::size_t>(size)),
        lengths(static_cast<std::size_t>(size)),
        data(size < 10 ? 200'000 : 5000) {}

  void run(Transport& wire) {
    for (const Route route : {Route::automatic, Route::ring, Route::doubling}) {
      allreduce_sum(wire, floats, route);
      allreduce_sum(wire, shorts, route);
    }
    reduce_scatter_sum(wire, floats);
    reduce_scatter_sum(wire, std::span(floats).first(10));
    allgather(wire, MutBytes(data).first(10), pieces);
    allgather(wire, MutBytes(data).first(1000 + static_cast<std::size_t>(wire.rank())), all,
              lengths);
    broadcast(wire, data, wire.size() - 1);
    broadcast(wire, MutBytes(data).first(100));
    barrier(wire);
    value.reserve(6000);
    value.assign(5000, std::byte{1});
    merge.run(wire, value, 6000, longer);
  }

  std::vector<float> floats;
  std::vector<std::uint16_t> shorts;
  Payload pieces, all;
  std::vector<std::uint64_t> lengths;
  Payload data, value;
  ButterflyMerge<Payload> merge;
  Longer longer;
};

TEST(Allocations, NoneFromTheSecondCallOn) {
  for (const int size : test::kGroupSizes) {
    test::on_ranks(size, [&](Transport& wire) {
      const std::unique_ptr<Transport> lane = wire.lane();
      for (Transport* each : {&wire, lane.get()}) {
        Calls calls(size);
        calls.run(*each);
        const std::uint64_t before = test::allocations();
        for (int turn = 0; turn < 2; ++turn) calls.run(*each);
        EXPECT_EQ(test::allocations() - before, 0u) << size << " ranks";
      }
    });
  }
}

TEST(Allocations, AreCounted) {
  const std::uint64_t before = test::allocations();
  const auto one = std::make_unique<int>(1);
  const std::vector<double> two(10, *one);
  EXPECT_EQ(test::allocations() - before, 2u);
}

}  // namespace
}  // namespace thinwire::collective
