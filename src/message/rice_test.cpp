#include "message/rice.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "testing/expect.h"
#include "thinwire/error.h"

namespace thinwire::message::rice {
namespace {

constexpr std::uint64_t kAll = std::uint64_t{1} << 32;

using Indices = std::vector<std::uint32_t>;

// Encodes the indices and checks that a guard after the output is not overwritten.
Payload coded(const Indices& indices, unsigned r) {
  const std::size_t bytes = words(indices, r) * kWordBytes;
  Payload out(bytes + kWordBytes + 1, std::byte{0xab});
  encode(indices, r, out.data());
  EXPECT_EQ(out.back(), std::byte{0xab});
  out.resize(bytes);
  return out;
}

Indices decoded(Bytes stream, unsigned r, std::size_t count, std::uint64_t numel) {
  check(stream, r, count, numel);
  Indices out(count);
  decode(stream, r, out);
  return out;
}

TEST(Rice, ParameterIsTheRoundedLogarithm) {
  for (const std::uint64_t numel : {1ull, 2ull, 10ull, 999ull, 25'560'000ull, 4'294'967'296ull}) {
    for (std::uint64_t count = 1; count <= numel; count += 1 + count / 7) {
      const double exact =
          std::log2(0.69 * static_cast<double>(numel) / static_cast<double>(count));
      const double rounded = std::max(0.0, std::round(exact));
      // The integers round at 0.9756 of a power of two instead of 0.9758.
      if (std::abs(exact - std::floor(exact) - 0.5) < 1e-3) continue;
      ASSERT_EQ(parameter(numel, count), rounded) << numel << ' ' << count;
    }
  }
  EXPECT_EQ(parameter(0, 0), 0u);
  EXPECT_EQ(parameter(kAll, 1), 31u);
  EXPECT_EQ(parameter(kAll, 0), 31u);
}

TEST(Rice, CodesAreTheDocumentedBits) {
  // 3 = 1,11000; then a gap of 0 = 1,00000; then one of 94 = 2 * 32 + 30 = 001,01111 (first bit
  // first).
  const Payload expected = {std::byte{0x47}, std::byte{0x40}, std::byte{0x0f}, {}, {}, {}, {}, {}};
  EXPECT_EQ(coded({3, 4, 99}, 5), expected);
}

TEST(Rice, LongRunsAndBothEndsOfTheRange) {
  const Indices extreme = {0, 1, 0x7fffffff, 0xfffffffe, 0xffffffff};
  for (unsigned r = 16; r < 32; ++r) {
    EXPECT_EQ(decoded(coded(extreme, r), r, extreme.size(), kAll), extreme) << r;
  }
  const Indices far = {40'000};  // 625 words of zeros
  EXPECT_EQ(coded(far, 0).size(), 626 * kWordBytes);
  EXPECT_EQ(decoded(coded(far, 0), 0, 1, 40'001), far);
  EXPECT_THROW(decoded(coded(far, 0), 0, 1, 40'000), WireError);
}

TEST(Rice, RefusesWhatIsNotExactlyTheCodes) {
  const Payload stream = coded({3, 4, 99}, 5);
  const auto refusal = [](Bytes bytes, unsigned count, std::uint64_t numel) {
    return std::string(test::must_throw<WireError>([&] { check(bytes, 5, count, numel); }).what());
  };
  EXPECT_TRUE(test::has(refusal(stream, 3, 99), "beyond the vector"));
  EXPECT_TRUE(test::has(refusal(stream, 4, 200), "ends inside an index"));
  EXPECT_TRUE(test::has(refusal(stream, 2, 100), "continues"));
  EXPECT_TRUE(test::has(refusal({}, 1, 100), "ends inside an index"));
  EXPECT_TRUE(test::has(refusal(Payload(4096), 1, 100), "beyond the vector"));
  EXPECT_TRUE(test::has(refusal(Payload(4096), 1, kAll), "ends inside an index"));
  EXPECT_TRUE(test::has(refusal(Payload(8), 0, 100), "continues"));
  Payload longer = stream;
  longer.resize(stream.size() + kWordBytes);
  EXPECT_TRUE(test::has(refusal(longer, 3, 100), "continues"));
  for (std::size_t bit = 20; bit < 64; ++bit) {
    Payload padded = stream;
    padded[bit / 8] |= std::byte{1} << (bit % 8);
    EXPECT_TRUE(test::has(refusal(padded, 3, 100), "continues")) << bit;
  }
}

Indices any_indices(std::uint64_t numel) {
  const auto chosen = *rc::gen::container<std::set<std::uint32_t>>(
      rc::gen::map(rc::gen::inRange<std::uint64_t>(0, numel),
                   [](std::uint64_t index) { return static_cast<std::uint32_t>(index); }));
  return {chosen.begin(), chosen.end()};
}

RC_GTEST_PROP(RiceProperty, DecodesWhatItEncodes, ()) {
  const auto numel = std::uint64_t{1} << *rc::gen::inRange(0, 33);
  const Indices indices = any_indices(numel);
  const unsigned best = parameter(numel, indices.size());
  const unsigned r = *rc::gen::inRange(best, 32u);
  const Payload stream = coded(indices, r);
  RC_ASSERT(decoded(stream, r, indices.size(), numel) == indices);
  RC_ASSERT(coded(indices, best).size() <= max_words(numel, indices.size()) * kWordBytes);
}

RC_GTEST_PROP(RiceProperty, ForeignStreamsAreIndicesOrRefused, ()) {
  const auto words =
      *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::arbitrary<std::uint64_t>());
  const auto numel = std::uint64_t{1} << *rc::gen::inRange(0, 33);
  const unsigned r = *rc::gen::inRange(0u, 32u);
  const auto count = *rc::gen::inRange<std::size_t>(0, 64 * words.size() + 2);
  try {
    const Indices indices = decoded(std::as_bytes(std::span(words)), r, count, numel);
    for (std::size_t i = 1; i < count; ++i) RC_ASSERT(indices[i - 1] < indices[i]);
    if (count > 0) RC_ASSERT(indices.back() < numel);
  } catch (const WireError&) {
  }
}

// Every set of indices below a small number, so that no worst case is missed.
TEST(Rice, NoStreamIsLongerThanTheBound) {
  for (std::uint32_t numel = 0; numel <= 14; ++numel) {
    std::vector<std::uint64_t> longest(numel + 1);
    for (std::uint32_t set = 0; set >> numel == 0; ++set) {
      Indices indices;
      for (std::uint32_t i = 0; i < numel; ++i) {
        if (set >> i & 1) indices.push_back(i);
      }
      const std::size_t count = indices.size();
      const std::uint64_t bound = max_words(numel, count);
      longest[count] = std::max(longest[count], words(indices, parameter(numel, count)));
      ASSERT_LE(longest[count], bound) << numel << ' ' << count;
    }
    for (std::size_t count = 1; count <= numel; ++count) {
      EXPECT_LE(longest[count - 1], max_words(numel, count)) << "fewer entries, longer stream";
    }
  }
}

TEST(Rice, TheBoundAlsoHoldsForFewerEntries) {
  for (const std::uint64_t numel : {1'000ull, 65'537ull, 1'000'000ull}) {
    std::uint64_t longest = 0;
    for (std::uint64_t count = 0; count <= numel; ++count) {
      const unsigned r = parameter(numel, count);
      // All entries but one are at the front and one is at the far end: this gives the longest run
      // of zeros.
      if (count > 0) longest = std::max(longest, words(count, r, (numel - count) >> r));
      ASSERT_EQ(max_words(numel, count), longest) << numel << ' ' << count;
    }
  }
}

}  // namespace
}  // namespace thinwire::message::rice
