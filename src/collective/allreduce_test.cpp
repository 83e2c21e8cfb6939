// All-reduce and reduce-scatter: results, bits, bytes and messages.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <limits>

#include <algorithm>
#include <bit>
#include <cmath>

#include "testing/ranks.h"
#include "tests/collective_laws.h"
#include "thinwire/collective.h"

namespace thinwire::collective {
namespace {

// --- The sums that docs/algorithms.md specifies, computed independently of the library.

float add(float lower, float higher) { return lower + higher; }

// Returns the sum as the ring adds it: for share s, ranks s+1, s+2, ..., s, from left to right.
float ring_sum(const std::vector<std::vector<float>>& in, std::size_t share, std::size_t i) {
  const std::size_t size = in.size();
  float sum = in[(share + 1) % size][i];
  for (std::size_t k = 2; k <= size; ++k) sum = add(sum, in[(share + k) % size][i]);
  return sum;
}

// Returns the sum as the doubling adds it: the first 2e ranks in pairs, then neighbouring ranges of
// ranks, pairwise.
float doubling_sum(const std::vector<std::vector<float>>& in, std::size_t i) {
  const std::size_t size = in.size(), extra = size - std::bit_floor(size);
  std::vector<float> sums;
  for (std::size_t r = 0; r < size; ++r) {
    if (r < 2 * extra) {
      sums.push_back(add(in[r][i], in[r + 1][i]));
      ++r;
    } else {
      sums.push_back(in[r][i]);
    }
  }
  for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
    for (std::size_t p = 0; p < sums.size() / 2; ++p) sums[p] = add(sums[2 * p], sums[2 * p + 1]);
  }
  return sums[0];
}

std::size_t chunks(std::size_t bytes) {
  const std::size_t smallest = 131'072, largest = 524'288;
  const std::size_t chunk = std::min(std::max(bytes / 4, smallest), largest);
  return std::max<std::size_t>(1, (bytes + chunk - 1) / chunk);
}

std::uint64_t ring_chunks(std::size_t numel, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  return chunks((numel + ranks - 1) / ranks * sizeof(float));
}

// Returns how many times a rank sends all of its data in the doubling.
std::uint64_t doubling_sends(int rank, int size) {
  const auto most = std::bit_floor(static_cast<unsigned>(size));
  const int paired = 2 * (size - static_cast<int>(most));
  const auto rounds = static_cast<std::uint64_t>(std::countr_zero(most));
  if (rank >= paired) return rounds;
  return rank % 2 != 0 ? 1 : rounds + 1;
}

// ---

std::vector<std::vector<float>> inputs(std::uint64_t seed, int size, std::size_t n) {
  std::vector<std::vector<float>> in;
  in.reserve(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) in.push_back(test::wild_floats(seed, r, n));
  return in;
}

std::vector<float> expected_sum(const std::vector<std::vector<float>>& in, Route route) {
  const std::size_t n = in[0].size();
  const int size = static_cast<int>(in.size());
  std::vector<float> out(n);
  for (int s = 0; s < size; ++s) {
    const Share share = share_of(n, s, size);
    for (std::size_t i = share.begin; i < share.end; ++i) {
      out[i] =
          route == Route::ring ? ring_sum(in, static_cast<std::size_t>(s), i) : doubling_sum(in, i);
    }
  }
  return out;
}

// Compares bits, but treats all NaNs as equal: docs/algorithms.md does not specify which of two
// NaNs a sum returns.
bool same_numbers(Floats a, Floats b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return test::same_bits({&x, 1}, {&y, 1}) || (std::isnan(x) && std::isnan(y));
  });
}

std::vector<std::vector<float>> allreduced(std::vector<std::vector<float>> data, Route route) {
  test::on_ranks(static_cast<int>(data.size()), [&](Transport& wire) {
    allreduce_sum(wire, data[static_cast<std::size_t>(wire.rank())], route);
  });
  return data;
}

class Groups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, Groups, testing::ValuesIn(test::kGroupSizes));

TEST_P(Groups, AnySizeOfDataIsReducedExactly) {
  const int size = GetParam();
  const auto ranks = static_cast<std::size_t>(size);
  test::on_ranks(size, [&](Transport& wire) {
    for (const auto& law : laws::collectives()) {
      for (const std::size_t n :
           {std::size_t{0}, std::size_t{1}, ranks - 1, ranks, ranks + 1, std::size_t{1000}}) {
        law.check(wire, n);
      }
    }
  });
}

TEST_P(Groups, SumsOfWildFloatsAgreeInEveryBitAndFollowTheDocumentedOrder) {
  const auto in = inputs(3, GetParam(), 777);
  for (const Route route : {Route::ring, Route::doubling}) {
    const auto out = allreduced(in, route);
    const std::vector<float> expected = expected_sum(in, route);
    for (const auto& mine : out) ASSERT_TRUE(test::same_bits(mine, out[0]));
    ASSERT_TRUE(same_numbers(out[0], expected));
    EXPECT_TRUE(test::same_bits(allreduced(in, route)[0], out[0]))
        << "a second run gives another result";
  }
}

TEST_P(Groups, AllreduceSendsTheBytesAndMessagesOfTheFormula) {
  const int size = GetParam();
  if (size == 1) return;
  for (const std::size_t n : {1u, 100u, 10'001u, 1'000'003u}) {
    if (n > 1'000'000 && size > 9) continue;
    test::on_ranks(size, [&](Transport& wire) {
      const int rank = wire.rank();
      std::vector<float> data(n, 1.0f);
      const test::Sent ring(wire);
      allreduce_sum(wire, data, Route::ring);
      const std::uint64_t kept =
          share_of(n, rank, size).size() + share_of(n, (rank + 1) % size, size).size();
      EXPECT_EQ(ring.bytes(), (2 * n - kept) * sizeof(float));
      EXPECT_EQ(ring.bytes(), allreduce_bytes(n, rank, size, Route::ring));
      EXPECT_EQ(ring.messages(), 2 * static_cast<std::uint64_t>(size - 1) * ring_chunks(n, size));

      const test::Sent doubling(wire);
      allreduce_sum(wire, data, Route::doubling);
      EXPECT_EQ(doubling.bytes(), doubling_sends(rank, size) * n * sizeof(float));
      EXPECT_EQ(doubling.bytes(), allreduce_bytes(n, rank, size, Route::doubling));
      EXPECT_EQ(doubling.messages(), doubling_sends(rank, size) * chunks(n * sizeof(float)));

      const test::Sent automatic(wire);
      allreduce_sum(wire, data);
      EXPECT_EQ(automatic.bytes(), allreduce_bytes(n, rank, size));
    });
  }
}

TEST_P(Groups, BytesAreCountedForEveryElementSize) {
  test::on_ranks(GetParam(), [](Transport& wire) {
    const auto check = [&]<class T>(T) {
      for (const Route route : {Route::ring, Route::doubling}) {
        std::vector<T> data(1001, 1);
        const test::Sent sent(wire);
        allreduce_sum(wire, std::span<T>(data), route);
        EXPECT_EQ(sent.bytes(), allreduce_bytes(1001, wire.rank(), wire.size(), route, sizeof(T)));
        EXPECT_EQ(data[1000], static_cast<T>(wire.size()));
      }
    };
    check(std::uint8_t{});
    check(std::uint16_t{});
    check(std::uint32_t{});
    check(std::uint64_t{});
  });
}

TEST_P(Groups, ReduceScatterSendsAllButItsShare) {
  const int size = GetParam();
  if (size == 1) return;
  const std::size_t each = size < 10 ? 40'000 : 2000;  // two chunks per share, or one
  const std::size_t n = each * static_cast<std::size_t>(size) + 1;
  const auto in = inputs(4, size, n);
  const std::vector<float> expected = expected_sum(in, Route::ring);
  test::on_ranks(size, [&](Transport& wire) {
    std::vector<float> data = in[static_cast<std::size_t>(wire.rank())];
    const test::Sent sent(wire);
    reduce_scatter_sum(wire, data);
    const Share mine = share_of(n, wire.rank(), size);
    EXPECT_EQ(sent.bytes(), (n - mine.size()) * sizeof(float));
    EXPECT_EQ(sent.messages(), static_cast<std::uint64_t>(size - 1) * ring_chunks(n, size));
    EXPECT_TRUE(same_numbers(std::span(data).subspan(mine.begin, mine.size()),
                             std::span(expected).subspan(mine.begin, mine.size())));
  });
}

// The ring takes P - 1 steps; the doubling takes log2 P rounds, and two more if P is not a power of
// two.
TEST_P(Groups, SmallReduceScatterTakesTheDoubling) {
  test::on_ranks(GetParam(), [](Transport& wire) {
    std::vector<float> data(100, 1.0f);
    const test::Sent sent(wire);
    reduce_scatter_sum(wire, data);
    const bool few = wire.size() == 4 || wire.size() > 5;
    const auto ring = static_cast<std::uint64_t>(wire.size() - 1);
    EXPECT_EQ(sent.messages(), few ? doubling_sends(wire.rank(), wire.size()) : ring);
  });
}

// Tests fewer chunks than the window holds, as many, and more, and shares that differ by one
// element.
TEST_P(Groups, TheMeanIsTheSumDivided) {
  const int size = GetParam();
  for (const std::size_t numel : {0u, 1u, 5u, 1000u, 300'000u}) {
    for (const Route route : {Route::ring, Route::doubling}) {
      test::on_ranks(size, [&](Transport& wire) {
        std::vector<float> mean(numel);
        for (std::size_t i = 0; i < numel; ++i) {
          mean[i] = static_cast<float>(i % 1000) * static_cast<float>(wire.rank() + 1);
        }
        std::vector<float> sum = mean;
        allreduce_sum(wire, MutFloats(sum), route);
        EXPECT_TRUE(allreduce_mean(wire, mean, route));
        for (std::size_t i = 0; i < numel; ++i) {
          ASSERT_EQ(mean[i], sum[i] / static_cast<float>(size)) << numel << ", " << i;
        }
      });
    }
  }
}

TEST_P(Groups, AMeanThatIsNotFiniteIsSeenByAll) {
  const int size = GetParam();
  for (const std::size_t bad : {0u, 777u, 99'999u}) {
    for (const Route route : {Route::ring, Route::doubling}) {
      test::on_ranks(size, [&](Transport& wire) {
        std::vector<float> data(100'000, 1.0f);
        if (wire.rank() == size / 2) data[bad] = std::numeric_limits<float>::quiet_NaN();
        EXPECT_FALSE(allreduce_mean(wire, data, route)) << bad;
      });
    }
  }
}

TEST(Allreduce, EveryNumberOfChunks) {
  constexpr std::size_t kChunk = 131'072 / sizeof(float);
  for (const int size : {2, 3, 5}) {
    const auto ranks = static_cast<std::size_t>(size);
    test::on_ranks(size, [&](Transport& wire) {
      for (const std::size_t share : {kChunk, kChunk + 1, 2 * kChunk + 1, 3 * kChunk + 7,
                                      4 * kChunk, 18 * kChunk, 20 * kChunk + 1}) {
        const std::size_t n = share * ranks - ranks / 2;
        for (const Route route : {Route::ring, Route::doubling}) {
          std::vector<std::uint32_t> data(n);
          const auto mine = static_cast<std::uint32_t>(wire.rank() + 1);
          for (std::size_t i = 0; i < n; ++i) data[i] = static_cast<std::uint32_t>(i) * mine;
          allreduce_sum(wire, data, route);
          const auto factor = static_cast<std::uint32_t>(size * (size + 1) / 2);
          for (std::size_t i = 0; i < n; ++i) {
            ASSERT_EQ(data[i], static_cast<std::uint32_t>(i) * factor) << n << " at " << i;
          }
        }
      }
    });
  }
}

RC_GTEST_PROP(AllreduceProperty, AllRanksAgreeAndFollowTheOrder, ()) {
  const int size = *rc::gen::inRange(1, 12);
  const auto n = *rc::gen::inRange<std::size_t>(0, 3000);
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  const Route route = *rc::gen::element(Route::ring, Route::doubling);
  const auto in = inputs(seed, size, n);
  const auto out = allreduced(in, route);
  const std::vector<float> expected = expected_sum(in, route);
  for (const auto& mine : out) RC_ASSERT(test::same_bits(mine, out[0]));
  RC_ASSERT(same_numbers(out[0], expected));
}

RC_GTEST_PROP(AllreduceProperty, BytesOfAllRanksAddUp, ()) {
  const int size = *rc::gen::inRange(2, 100);
  const auto n = *rc::gen::inRange<std::size_t>(0, 1'000'000);
  std::uint64_t ring = 0, doubling = 0;
  for (int rank = 0; rank < size; ++rank) {
    ring += allreduce_bytes(n, rank, size, Route::ring);
    doubling += allreduce_bytes(n, rank, size, Route::doubling);
  }
  const auto most = std::bit_floor(static_cast<unsigned>(size));
  RC_ASSERT(ring == 2 * static_cast<std::uint64_t>(size - 1) * n * sizeof(float));
  RC_ASSERT(doubling == (most * static_cast<unsigned>(std::countr_zero(most)) +
                         2 * (static_cast<unsigned>(size) - most)) *
                            n * sizeof(float));
}

}  // namespace
}  // namespace thinwire::collective
