#include "message/sparse_message.h"
#include "kernel/sparse.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>

#include "base/hash.h"
#include "base/random.h"
#include "testing/allocations.h"
#include "testing/expect.h"
#include "thinwire/error.h"

namespace thinwire::message {
namespace {

constexpr std::size_t kAll = std::size_t{1} << 32;
constexpr ValueCoding kCodings[] = {ValueCoding::bf16, ValueCoding::fp32};
constexpr ValueCoding kBf16 = ValueCoding::bf16;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
float from_bits(std::uint32_t value) { return std::bit_cast<float>(value); }

bool same_bits(const Sparse& a, const Sparse& b) {
  return a.indices == b.indices && a.values.size() == b.values.size() &&
         (a.values.empty() ||
          std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0);
}

Payload encoded(const Sparse& entries, ValueCoding coding, const SparseAddress& address) {
  Payload out;
  encode_sparse(entries, coding, address, out);
  return out;
}

Sparse decoded(Bytes in, ValueCoding coding, const SparseAddress& address,
               std::size_t max_count = kAll) {
  Sparse out;
  decode_sparse(in, coding, address, max_count, out);
  return out;
}

void round_all(ValueCoding coding, Sparse& entries) {
  std::vector<float> errors(entries.size());
  round_to_wire(coding, entries.values, errors);
}

// About `density` of numel indices at random, with values of either sign that are not 0.
Sparse random_entries(std::size_t numel, double density, std::uint64_t seed = 1) {
  Sparse out;
  for (std::size_t i = 0; i < numel; ++i) {
    const auto random = base::philox(seed, 0, i, base::Purpose::test);
    if (base::unit_float(random[0]) >= static_cast<float>(density)) continue;
    out.push_back(static_cast<std::uint32_t>(i), base::unit_float(random[1]) - 1.5f);
  }
  return out;
}

// With the checksum made right again: what only the other checks can refuse.
Payload forged(Payload message) {
  const auto sum = static_cast<std::uint32_t>(base::hash64(Bytes(message).subspan(8)));
  std::memcpy(message.data() + 4, &sum, sizeof sum);
  return message;
}

template <class Number>
Payload with_field(const Payload& message, std::size_t at, Number value) {
  Payload changed = message;
  std::memcpy(changed.data() + at, &value, sizeof value);
  return forged(changed);
}

// --- The format.

TEST(SparseMessage, IsTheDocumentedBytes) {
  Sparse entries;
  entries.push_back(3, 1.0f);
  entries.push_back(4, -2.5f);
  entries.push_back(99, std::numeric_limits<float>::infinity());
  const Payload message = encoded(entries, kBf16, {100, 0x0102030405060708});
  const std::uint8_t golden[] = {
      0x54, 0x57, 0x53, 0x50,                          // "TWSP"
      0x54, 0x76, 0xa2, 0x73,                          // checksum
      0x02, 0x00, 0x00, 0x05,                          // version, Rice, bf16, parameter
      0x01, 0x00, 0x00, 0x00,                          // words of indices
      0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,  // step
      0x64, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // numel
      0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // count
      0x47, 0x40, 0x0f, 0x00, 0x00, 0x00, 0x00, 0x00,  // 3, 4, 99
      0x80, 0x3f, 0x20, 0xc0, 0x80, 0x7f,              // 1, -2.5, infinity
  };
  ASSERT_EQ(message.size(), sizeof golden);
  EXPECT_EQ(std::memcmp(message.data(), golden, sizeof golden), 0);
  EXPECT_EQ(decoded(message, kBf16, {100, 0x0102030405060708}), entries);
}

TEST(SparseMessage, TheFormWithoutIndicesIsTheDocumentedBytes) {
  Sparse full = random_entries(50, 1);
  round_all(kBf16, full);
  const Payload all = encoded(full, kBf16, {50, 0});
  EXPECT_EQ(all.size(), 40u + 2 * 50);
  EXPECT_EQ(all[9], std::byte{2});
  EXPECT_EQ(decoded(all, kBf16, {50, 0}, 50), full);
}

TEST(SparseMessage, IsAppended) {
  const Sparse entries = random_entries(1000, 0.1);
  for (ValueCoding coding : kCodings) {
    Sparse sent = entries;
    round_all(coding, sent);
    Payload out(13, std::byte{7});  // an odd length: nothing may rely on alignment
    encode_sparse(sent, coding, {1000, 1}, out);
    EXPECT_EQ(decoded(Bytes(out).subspan(13), coding, {1000, 1}), sent);
    EXPECT_EQ(Payload(out.begin(), out.begin() + 13), Payload(13, std::byte{7}));
  }
}

// --- Laws.

Sparse any_entries(std::size_t numel) {
  // Uniform, clustered (few distinct high bits) or at the ends.
  const auto index =
      rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, numel),
                     rc::gen::map(rc::gen::inRange<std::uint64_t>(0, 64),
                                  [numel](std::uint64_t i) { return (numel / 3 + i) % numel; }),
                     rc::gen::element<std::uint64_t>(0, numel - 1));
  Sparse out;
  for (const std::uint64_t i : *rc::gen::container<std::set<std::uint64_t>>(index)) {
    out.push_back(static_cast<std::uint32_t>(i), from_bits(*rc::gen::arbitrary<std::uint32_t>()));
  }
  return out;
}

RC_GTEST_PROP(SparseProperty, WhatIsEncodedIsDecodedAndNotLongerThanTheBound, ()) {
  const std::size_t numel =
      *rc::gen::oneOf(rc::gen::inRange<std::size_t>(1, 200),
                      rc::gen::inRange<std::size_t>(1, kAll + 1), rc::gen::just(kAll));
  const ValueCoding coding = kCodings[*rc::gen::inRange(0, 2)];
  const SparseAddress address{numel, *rc::gen::arbitrary<std::uint64_t>()};
  Sparse entries = any_entries(numel);
  round_all(coding, entries);
  const Payload message = encoded(entries, coding, address);
  RC_ASSERT(message.size() <= sparse_max_bytes(coding, numel, entries.size()));
  const auto more = *rc::gen::inRange<std::size_t>(0, numel);
  RC_ASSERT(message.size() <= sparse_max_bytes(coding, numel, entries.size() + more));

  const bool dense = message[9] == std::byte{2};
  if (dense) {  // +0 needs no entry there
    Sparse kept;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (bits(entries.values[i]) != 0) kept.push_back(entries.indices[i], entries.values[i]);
    }
    entries = kept;
  }
  RC_ASSERT(same_bits(decoded(message, coding, address, entries.size()), entries));
}

RC_GTEST_PROP(SparseProperty, RoundingLosesNothing, (const std::vector<std::uint32_t>& patterns)) {
  for (ValueCoding coding : kCodings) {
    std::vector<float> before, errors(patterns.size());
    for (const std::uint32_t pattern : patterns) before.push_back(from_bits(pattern));
    std::vector<float> after = before;
    round_to_wire(coding, after, errors);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (std::isnan(before[i])) {
        RC_ASSERT(std::isnan(after[i]));
        RC_ASSERT(errors[i] == 0);
        continue;
      }
      RC_ASSERT(after[i] + errors[i] == before[i]);
      RC_ASSERT(std::isinf(before[i]) == std::isinf(after[i]));
      RC_ASSERT(std::signbit(before[i]) == std::signbit(after[i]));
      // Exact in the reals too: as doubles these sums are not rounded.
      if (std::isfinite(before[i])) {
        RC_ASSERT(double{after[i]} + double{errors[i]} == double{before[i]});
      }
    }
    std::vector<float> again = after;
    round_to_wire(coding, again, errors);
    for (std::size_t i = 0; i < after.size(); ++i) RC_ASSERT(bits(again[i]) == bits(after[i]));
  }
}

TEST(SparseRounding, IsToNearestEvenAndStaysFinite) {
  std::vector<float> values = {1 + 0x1.0p-8f, 1 + 0x1.8p-7f, -0.0f,
                               1e-45f,        3.4e38f,       -3.4028235e38f};
  std::vector<float> errors(values.size());
  round_to_wire(ValueCoding::bf16, values, errors);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 1 + 0x1.0p-6f);
  EXPECT_EQ(bits(values[2]), 0x80000000u);
  EXPECT_EQ(values[3], 0);
  EXPECT_EQ(errors[3], 1e-45f);
  EXPECT_EQ(bits(values[4]), 0x7f7f0000u);
  EXPECT_EQ(bits(values[5]), 0xff7f0000u);
}

TEST(SparseMessage, EdgesOfSize) {
  for (ValueCoding coding : kCodings) {
    EXPECT_EQ(decoded(encoded({}, coding, {0, 9}), coding, {0, 9}, 0), Sparse{});
    EXPECT_EQ(decoded(encoded({}, coding, {kAll, 9}), coding, {kAll, 9}, 0), Sparse{});
    EXPECT_EQ(encoded({}, coding, {kAll, 9}).size(), 40u);
    EXPECT_EQ(sparse_max_bytes(coding, kAll, 0), 40u);
    EXPECT_EQ(sparse_max_bytes(coding, 0, 0), 40u);
    Sparse last;
    last.push_back(0xffffffff, 1.0f);
    EXPECT_EQ(decoded(encoded(last, coding, {kAll, 9}), coding, {kAll, 9}, 1), last);
    Sparse full = random_entries(77, 1);
    round_all(coding, full);
    EXPECT_EQ(decoded(encoded(full, coding, {77, 9}), coding, {77, 9}, 77), full);
  }
}

TEST(SparseMessage, ABoundForAbsurdSizesIsANumberOrRefused) {
  const std::size_t absurd = std::numeric_limits<std::size_t>::max();
  for (ValueCoding coding : kCodings) {
    EXPECT_THROW(sparse_max_bytes(coding, kAll + 1, 1), std::length_error);
    EXPECT_THROW(sparse_max_bytes(coding, absurd, absurd), std::length_error);
    EXPECT_EQ(sparse_max_bytes(coding, kAll, absurd), sparse_max_bytes(coding, kAll, kAll));
    EXPECT_EQ(sparse_max_bytes(coding, kAll, kAll),
              40 + kAll * (coding == ValueCoding::bf16 ? 2 : 4));
    Payload out;
    EXPECT_THROW(encode_sparse({}, coding, {kAll + 1, 0}, out), std::length_error);
  }
}

TEST(SparseMessage, EntriesThatAreNoSparseVectorAreABug) {
  Sparse falling;
  falling.push_back(5, 1);
  falling.push_back(5, 1);
  Payload out;
  EXPECT_THROW(encode_sparse(falling, {}, {9, 0}, out), std::invalid_argument);
  Sparse outside;
  outside.push_back(9, 1);
  EXPECT_THROW(encode_sparse(outside, {}, {9, 0}, out), std::invalid_argument);
  outside.values.clear();
  EXPECT_THROW(encode_sparse(outside, {}, {10, 0}, out), std::invalid_argument);
  EXPECT_TRUE(out.empty());
}

// --- Size.

TEST(SparseMessage, IsWithinItsBudgetAndTheEntropy) {
  constexpr std::size_t kNumel = 4'000'000;
  for (const double density : {1e-4, 1e-3, 1e-2, 6.25e-2, 0.25}) {
    Sparse entries = random_entries(kNumel, density);
    round_all(kBf16, entries);
    const auto count = static_cast<double>(entries.size());
    const auto bytes = static_cast<double>(encoded(entries, kBf16, {kNumel, 0}).size());
    const double entropy = index_entropy_bits(kNumel, entries.size()) / 8 + 2 * count;
    if (density == 1e-3) {
      EXPECT_LE(bytes / count, 3.6);
    }
    EXPECT_GE(bytes, entropy);
    EXPECT_LE(bytes, entropy * 1.01 + 48) << density;
    const auto bound = static_cast<double>(sparse_max_bytes(kBf16, kNumel, entries.size()));
    EXPECT_LE(bound, bytes * 1.03) << density;
  }
}

TEST(SparseMessage, EntropyOfSetsOfIndices) {
  EXPECT_NEAR(index_entropy_bits(4, 2), std::log2(6), 1e-12);
  EXPECT_NEAR(index_entropy_bits(52, 5), std::log2(2'598'960), 1e-9);
  EXPECT_EQ(index_entropy_bits(0, 0), 0);
  EXPECT_NEAR(index_entropy_bits(100, 100), 0, 1e-9);
  EXPECT_NEAR(index_entropy_bits(25'560'000, 25'560) / 25'560, 11.41, 0.01);
}

// --- Foreign bytes.

void expect_refused(Bytes message, ValueCoding coding, const SparseAddress& address,
                    std::size_t max_count, std::string_view part) {
  Sparse out;
  out.push_back(17, 4.0f);
  const Sparse before = out;
  const auto error =
      test::must_throw<WireError>([&] { decode_sparse(message, coding, address, max_count, out); });
  EXPECT_TRUE(test::has(error.what(), part));
  EXPECT_EQ(out, before);
}

TEST(SparseMessage, OfAnotherAddressOrFormatIsRefused) {
  Sparse entries = random_entries(1000, 0.05);
  round_all(kBf16, entries);
  const std::size_t count = entries.size();
  for (ValueCoding coding : kCodings) {
    const Payload message = encoded(entries, coding, {1000, 5});
    expect_refused(message, coding, {1000, 6}, count, "of step 5, not 6");
    expect_refused(message, coding, {1001, 5}, count, "of 1000 elements, not 1001");
    expect_refused(message, coding, {1000, 5}, count - 1, "entries, at most");
    for (ValueCoding other : kCodings) {
      if (other == coding) continue;
      expect_refused(message, other, {1000, 5}, count, "another format");
    }
  }
}

TEST(SparseMessage, EveryFlippedBitAndEveryOtherLengthIsRefused) {
  Sparse entries = random_entries(200, 0.1);
  Sparse full = random_entries(40, 1);
  for (ValueCoding coding : kCodings) {
    for (Sparse* sparse : {&entries, &full}) {
      round_all(coding, *sparse);
      const SparseAddress address{sparse == &full ? 40u : 200u, 5};
      const Payload message = encoded(*sparse, coding, address);
      for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
        Payload damaged = message;
        damaged[bit / 8] ^= std::byte{1} << (bit % 8);
        expect_refused(damaged, coding, address, 200, "sparse message");
      }
      for (std::size_t length = 0; length < message.size(); ++length) {
        const Payload cut(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(length));
        expect_refused(cut, coding, address, 200, "sparse message");
      }
      Payload longer = message;
      longer.push_back({});
      expect_refused(longer, coding, address, 200, "bytes long");
    }
  }
}

// Right checksum, wrong contents.
TEST(SparseMessage, EveryFieldIsCheckedOnItsOwn) {
  Sparse entries = random_entries(1000, 0.05);
  round_all(kBf16, entries);
  const SparseAddress address{1000, 5};
  const auto refuse = [&](const Payload& message, std::string_view part) {
    expect_refused(message, kBf16, address, 1000, part);
  };
  const Payload rice = encoded(entries, kBf16, address);
  refuse(with_field(rice, 0, std::uint32_t{0x50535755}), "magic");
  refuse(with_field(rice, 8, std::uint8_t{1}), "version 1 is not known (2 is)");
  refuse(with_field(rice, 9, std::uint8_t{3}), "header is damaged");
  refuse(with_field(rice, 10, std::uint8_t{3}), "header is damaged");
  refuse(with_field(rice, 11, std::uint8_t{9}), "Rice parameter is 9, must be 4");
  refuse(with_field(rice, 12, std::uint32_t{0xffffffff}), "bytes long");
  refuse(with_field(rice, 24, std::uint64_t{kAll + 1}), "header is damaged");
  refuse(with_field(rice, 32, std::uint64_t{1001}), "header is damaged");
  refuse(with_field(rice, 40, ~std::uint64_t{0}), "index");
  refuse(with_field(rice, 40, std::uint64_t{0}), "index");

  refuse(with_field(rice, 9, std::uint8_t{1}), "header is damaged");  // once: 32-bit indices
  Sparse full = random_entries(1000, 1);
  round_all(kBf16, full);
  const Payload dense = encoded(full, kBf16, address);
  refuse(with_field(dense, 40, std::uint16_t{0}), "999 values that are not 0");
}

RC_GTEST_PROP(SparseProperty, ForeignBytesAreEntriesOrRefused, ()) {
  const ValueCoding coding = kCodings[*rc::gen::inRange(0, 2)];
  const SparseAddress address{*rc::gen::inRange<std::size_t>(1, 300), 5};
  Sparse entries = any_entries(address.numel);
  round_all(coding, entries);
  Payload message = encoded(entries, coding, address);
  const auto changes = *rc::gen::inRange(1, 10);
  for (int change = 0; change < changes; ++change) {
    const auto at = *rc::gen::inRange<std::size_t>(0, message.size());
    message[at] = *rc::gen::map(rc::gen::arbitrary<std::uint8_t>(),
                                [](std::uint8_t byte) { return std::byte{byte}; });
  }
  const auto most = *rc::gen::inRange<std::size_t>(0, 300);
  Sparse out;
  try {
    decode_sparse(forged(message), coding, address, most, out);
    RC_ASSERT(out.size() <= most);
    for (std::size_t i = 1; i < out.size(); ++i) RC_ASSERT(out.indices[i - 1] < out.indices[i]);
    if (out.size() > 0) RC_ASSERT(out.indices.back() < address.numel);
  } catch (const WireError&) {
    RC_ASSERT(out.size() == 0u);
  }
  RC_ASSERT(out.indices.capacity() <= most);
  RC_ASSERT(out.values.capacity() <= most);
}

RC_GTEST_PROP(SparseProperty, GarbageIsRefused, (const std::vector<std::uint8_t>& garbage)) {
  Sparse out;
  RC_ASSERT_THROWS_AS(decode_sparse(std::as_bytes(std::span(garbage)), {}, {9, 0}, 9, out),
                      WireError);
}

TEST(SparseMessage, NothingIsAllocatedAfterTheFirstCall) {
  for (ValueCoding coding : kCodings) {
    for (const double density : {0.01, 1.0}) {
      Sparse entries = random_entries(20'000, density), out;
      std::vector<float> errors(entries.size());
      Payload message;
      const auto round_trip = [&] {
        round_to_wire(coding, entries.values, errors);
        message.clear();
        encode_sparse(entries, coding, {20'000, 3}, message);
        decode_sparse(message, coding, {20'000, 3}, entries.size(), out);
      };
      round_trip();
      const std::uint64_t before = test::allocations();
      round_trip();
      EXPECT_EQ(test::allocations() - before, 0u);
    }
  }
}

}  // namespace
}  // namespace thinwire::message
