#include "message/shard_message.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <set>

#include "base/random.h"
#include "message/checksum.h"
#include "testing/allocations.h"
#include "testing/expect.h"
#include "thinwire/error.h"

namespace thinwire::message {
namespace {

constexpr std::size_t kNoLimit = SIZE_MAX;

// About `density` of the indices below numel.
std::vector<std::uint32_t> random_indices(std::size_t numel, double density, std::uint64_t seed) {
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < numel; ++i) {
    const auto random = base::philox(seed, 0, i, base::Purpose::test);
    if (base::unit_float(random[0]) < static_cast<float>(density)) {
      out.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return out;
}

Sparse random_entries(std::size_t numel, double density, std::uint64_t seed) {
  Sparse out;
  out.indices = random_indices(numel, density, seed);
  for (const std::uint32_t index : out.indices) {
    out.values.push_back(static_cast<float>(index % 7) - 3.5f);  // exact in bf16
  }
  return out;
}

struct Encoded {
  ShardForm form;
  Payload bytes;
};

Encoded encoded(const Sparse& entries, const ShardAddress& address,
                std::span<const std::uint32_t> known = {}) {
  ShardCodec codec;
  Encoded out;
  out.form = codec.encode(entries, address, known, out.bytes);
  return out;
}

Sparse decoded(Bytes in, const ShardAddress& address, std::span<const std::uint32_t> known = {},
               std::size_t max_entries = kNoLimit) {
  ShardCodec codec;
  Sparse out;
  codec.decode(in, address, max_entries, known, out);
  return out;
}

TEST(ShardMessage, TakesTheShortestOfFourForms) {
  const ShardAddress address{ShardKind::push, 3, 6400, 7, ValueCoding::bf16};
  const auto few = random_entries(6400, 0.01, 1);
  EXPECT_EQ(encoded(few, address).form, ShardForm::rice);
  EXPECT_EQ(encoded(random_entries(6400, 0.45, 1), address).form, ShardForm::bitmap);
  EXPECT_EQ(encoded(random_entries(6400, 0.99, 1), address).form, ShardForm::dense);
  EXPECT_EQ(encoded(few, address, few.indices).form, ShardForm::relative);
  EXPECT_EQ(encoded(few, address, random_indices(6400, 0.5, 2)).form, ShardForm::rice);
}

// Values and one bit each are all that is left of entries that both sides know.
TEST(ShardMessage, RelativeToItsOwnIndicesIsValuesAlone) {
  const ShardAddress address{ShardKind::push, 0, 10'000, 7, ValueCoding::bf16};
  const auto entries = random_entries(10'000, 0.01, 1);
  const std::size_t count = entries.size();
  EXPECT_EQ(encoded(entries, address, entries.indices).bytes.size(),
            48 + (count + 63) / 64 * 8 + 2 * count);
}

RC_GTEST_PROP(ShardMessageProperty, ComesBackAsItWas, ()) {
  ShardAddress address;
  address.kind = *rc::gen::element(ShardKind::push, ShardKind::aggregate);
  address.shard = *rc::gen::arbitrary<std::uint32_t>();
  address.step = *rc::gen::arbitrary<std::uint64_t>();
  address.values = *rc::gen::element(ValueCoding::bf16, ValueCoding::fp32);
  address.numel = *rc::gen::inRange<std::size_t>(0, 3000);
  const auto density = rc::gen::element(0.0, 0.003, 0.05, 0.3, 0.6, 1.0);
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1000);
  const Sparse entries = random_entries(address.numel, *density, seed);
  auto known = random_indices(address.numel, *density, *rc::gen::element(seed, seed + 2));
  const Encoded message = encoded(entries, address, known);
  RC_ASSERT(decoded(message.bytes, address, known, entries.size()) == entries);
  RC_ASSERT(message.bytes.size() <= shard_max_bytes(address, entries.size()));
}

TEST(ShardMessage, IsRefusedElsewhere) {
  const ShardAddress address{ShardKind::push, 3, 6400, 7, ValueCoding::bf16};
  const auto entries = random_entries(6400, 0.02, 1);
  const Payload bytes = encoded(entries, address).bytes;
  const auto refusal = [&](auto change) {
    ShardAddress other = address;
    change(other);
    return std::string(test::must_throw<WireError>([&] { decoded(bytes, other); }).what());
  };
  EXPECT_TRUE(test::has(refusal([](ShardAddress& a) { a.step = 8; }), "of step 7, not 8"));
  EXPECT_TRUE(test::has(refusal([](ShardAddress& a) { a.shard = 1; }), "of shard 3, not 1"));
  EXPECT_TRUE(
      test::has(refusal([](ShardAddress& a) { a.numel = 6401; }), "6400 elements, not 6401"));
  EXPECT_TRUE(test::has(refusal([](ShardAddress& a) { a.kind = ShardKind::aggregate; }), "a push"));
  EXPECT_TRUE(test::has(refusal([](ShardAddress& a) { a.values = ValueCoding::fp32; }), "format"));
  EXPECT_THROW(decoded(bytes, address, {}, 5), WireError);
  const auto known = random_indices(6400, 0.02, 1);
  const Encoded relative = encoded(entries, address, known);
  ASSERT_EQ(relative.form, ShardForm::relative);
  EXPECT_THROW(decoded(relative.bytes, address, std::span(known).first(9)), WireError);
}

// With the checksum made right again: what only the other checks can refuse. Whatever passes them
// is a message, and nothing is read or written out of bounds.
TEST(ShardMessage, AnyBytesAreAMessageOrRefused) {
  const ShardAddress address{ShardKind::aggregate, 1, 300, 7, ValueCoding::bf16};
  const auto known = random_indices(300, 0.1, 5);
  int refused = 0, accepted = 0;
  for (const double density : {0.02, 0.1, 0.5, 1.0}) {
    const Sparse entries = random_entries(300, density, 5);
    const Payload good = encoded(entries, address, known).bytes;
    for (std::size_t length = 0; length < good.size(); ++length) {
      EXPECT_THROW(decoded(Bytes(good).first(length), address, known), WireError) << length;
    }
    for (std::uint64_t trial = 0; trial < 3000; ++trial) {
      const auto random = base::philox(1, trial, 0, base::Purpose::test);
      Payload bad = good;
      bad[8 + random[0] % (bad.size() - 8)] ^= static_cast<std::byte>(1u << random[1] % 8);
      EXPECT_THROW(decoded(bad, address, known), WireError);
      write_checksum(bad);
      try {
        const Sparse got = decoded(bad, address, known);
        ++accepted;
        for (const std::uint32_t index : got.indices) EXPECT_LT(index, 300u);
      } catch (const WireError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 1000);  // other values, mostly
}

TEST(ShardMessage, RefusesEntriesThatAreNoSparseVector) {
  const ShardAddress address{ShardKind::push, 0, 10, 7, ValueCoding::fp32};
  Sparse entries;
  entries = {{4, 3}, {1, 2}};
  EXPECT_THROW(encoded(entries, address), std::invalid_argument);
  entries = {{3, 10}, {1, 2}};
  EXPECT_THROW(encoded(entries, address), std::invalid_argument);
  entries = {{3, 4}, {1}};
  EXPECT_THROW(encoded(entries, address), std::invalid_argument);
}

TEST(ShardMessage, AllocatesNothingTheSecondTime) {
  const ShardAddress address{ShardKind::push, 0, 5000, 7, ValueCoding::bf16};
  const auto entries = random_entries(5000, 0.05, 1);
  const auto known = random_indices(5000, 0.05, 1);
  ShardCodec codec;
  Sparse back;
  Payload bytes;
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t before = test::allocations();
    bytes.clear();
    codec.encode(entries, address, known, bytes);
    codec.decode(bytes, address, kNoLimit, known, back);
    EXPECT_TRUE(i == 0 || test::allocations() == before);
  }
}

}  // namespace
}  // namespace thinwire::message
