#include "strategy/gossip/model_coding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "message/lattice.h"
#include "testing/expect.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

constexpr std::size_t kNumel = 600;  // three blocks, the last one short
constexpr int kMany = 50;            // messages, more than a coding needs before it quantizes

std::vector<float> model(std::uint64_t seed) {
  std::vector<float> values(kNumel);
  for (std::size_t i = 0; i < kNumel; ++i) {
    values[i] = 1 + 0.01f * base::unit_float(base::philox(seed, i, 0, base::Purpose::test)[0]);
  }
  return values;
}

// Returns the coding of a worker that has sent and received a message in each of many steps.
ModelCoding coding(unsigned bits, Floats own) {
  ModelCoding coding(bits);
  coding.begin(own);
  Payload out(coding.bytes());
  for (int message = 0; message < kMany; ++message) {
    coding.observe(model(100 + static_cast<std::uint64_t>(message)));
    std::vector<float> params(own.begin(), own.end());
    coding.write(params, out);
    coding.stepped(own);
  }
  return coding;
}

TEST(ModelCoding, IsReadyOnceItHasObservedEnoughMessages) {
  std::vector<float> own = model(1);
  ModelCoding coding(4);
  coding.begin(own);
  Payload out(coding.bytes());
  EXPECT_EQ(out.size(), 18 + kNumel / 2) << "three blocks";
  int messages = 0;
  for (; !coding.write(own, out); ++messages) {
    EXPECT_EQ(own, model(1)) << "nothing was written";
    coding.observe(model(2));
    ASSERT_LT(messages, kMany);
  }
  EXPECT_GE(messages, 2);
  EXPECT_NE(own, model(1));
}

TEST(ModelCoding, WhatIsReadBalancesWhatTheWriterKeeps) {
  for (const unsigned bits : {4u, 8u}) {
    std::vector<float> writer = model(1), reader = model(2), read(kNumel);
    ModelCoding from = coding(bits, writer), to = coding(bits, reader);
    Payload out(from.bytes());
    ASSERT_TRUE(from.write(writer, out));
    to.check(out);
    to.read(out, 1, read);
    EXPECT_EQ(to.take_count().out_of_range, 0u);
    const std::vector<float> before = model(1);
    for (std::size_t i = 0; i < kNumel; ++i) {
      EXPECT_NEAR((writer[i] + read[i]) / 2, before[i], 1e-7);
      EXPECT_NEAR(read[i], before[i], 0.02 / (1u << bits) * 2.5);
    }
    // With a share, the present values move towards the decoded ones.
    std::vector<float> moved(kNumel, 3.0f);
    to.read(out, 0.25f, moved);
    for (std::size_t i = 0; i < kNumel; ++i) EXPECT_NEAR(moved[i], 3 + (read[i] - 3) / 4, 1e-6);
  }
}

TEST(ModelCoding, ABlockOutOfRangeIsReplacedByTheOwnAndRangesGrowUntilItIsRead) {
  std::vector<float> writer = model(1), reader = model(2);
  for (std::size_t i = 256; i < 512; ++i) reader[i] += 1;
  ModelCoding from = coding(4, writer), to = coding(4, model(2));
  to.stepped(reader);
  Payload out(from.bytes());
  ASSERT_TRUE(from.write(writer, out));
  std::vector<float> read(kNumel);
  to.read(out, 1, read);
  const ModelCoding::Count count = to.take_count();
  EXPECT_EQ(count.blocks, 3u);
  EXPECT_EQ(count.out_of_range, 1u);
  EXPECT_EQ(to.take_count().blocks, 0u);
  for (std::size_t i = 256; i < 512; ++i) EXPECT_EQ(read[i], reader[i]);
  std::vector<float> waiting(kNumel, 7.0f);
  to.read(out, 0.5f, waiting);
  EXPECT_EQ(waiting[300], 7.0f + 0.5f * (reader[300] - 7.0f));
  EXPECT_LT(waiting[0], 5.0f);
  // Both use larger lattice steps than the message that could not be read.
  int messages = 0;
  for (std::uint64_t failed = 1; failed > 0;
       failed = from.take_count().out_of_range + to.take_count().out_of_range) {
    std::vector<float> a = writer, b = reader;
    ASSERT_TRUE(from.write(a, out));
    from.stepped(writer);
    to.read(out, 1, read);
    ASSERT_TRUE(to.write(b, out));
    to.stepped(reader);
    from.read(out, 1, read);
    ASSERT_LT(++messages, 10);
  }
  for (std::size_t i = 256; i < 512; ++i) EXPECT_NEAR(read[i], reader[i], 0.3);
}

TEST(ModelCoding, AfterALongIntervalMessagesHaveFullPrecisionUntilOthersArrive) {
  std::vector<float> own = model(1);
  ModelCoding coding = strategy::coding(4, own);
  Payload out(coding.bytes());
  const auto after = [&](int steps) {
    for (int step = 0; step < steps; ++step) coding.stepped(own);
    return coding.write(own, out);
  };
  const auto receive = [&] {
    for (int message = 0; message < 4; ++message) coding.observe(model(2));
  };
  EXPECT_TRUE(after(3)) << "the wire was busy";
  EXPECT_FALSE(after(20));
  EXPECT_FALSE(after(20)) << "the interval is usual now, but the distances are not known yet";
  receive();
  EXPECT_TRUE(after(20));
  EXPECT_TRUE(after(40));
  EXPECT_TRUE(after(1));
  EXPECT_FALSE(after(90));
}

TEST(ModelCoding, WithoutAFiniteRangeMessagesHaveFullPrecision) {
  const std::vector<float> own = model(1);
  for (const float odd : {HUGE_VALF, std::nanf(""), 1e38f}) {
    ModelCoding far = coding(4, own);
    std::vector<float> other = own, params = own;
    other[300] = odd;
    far.observe(other);
    Payload out(far.bytes());
    EXPECT_FALSE(far.write(params, out)) << odd;
    EXPECT_EQ(params, own);
    ModelCoding large = coding(4, own);
    params[300] = odd;
    EXPECT_FALSE(large.write(params, out)) << odd;
    EXPECT_EQ(params[0], own[0]);
  }
}

TEST(ModelCoding, ParametersThatNeverMoveAreKept) {
  std::vector<float> own(kNumel, 0.25f);
  own[7] = 0;
  ModelCoding coding(4);
  coding.begin(own);
  for (int message = 0; message < kMany; ++message) coding.observe(own);
  std::vector<float> params = own, read(kNumel);
  Payload out(coding.bytes());
  ASSERT_TRUE(coding.write(params, out));
  coding.read(out, 1, read);
  EXPECT_EQ(coding.take_count().out_of_range, 0u);
  for (std::size_t i = 0; i < kNumel; ++i) EXPECT_NEAR(read[i], own[i], 1e-6);
}

TEST(ModelCoding, RangesSurviveACheckpoint) {
  const std::vector<float> own = model(1);
  ModelCoding before = coding(4, own), after(4);
  Payload state;
  base::ByteWriter writer(state);
  before.save(writer);
  base::ByteReader reader(state, "state");
  after.load(reader);
  reader.expect_end();
  after.begin(own);
  std::vector<float> one = own, two = own;
  Payload first(before.bytes()), second(after.bytes());
  ASSERT_TRUE(before.write(one, first));
  ASSERT_TRUE(after.write(two, second));
  EXPECT_EQ(first, second);
  EXPECT_EQ(one, two);
  EXPECT_THROW(after.begin(std::vector<float>(2 * kNumel)), WireError) << "of another model";
}

TEST(ModelCoding, RefusesForeignBytesAndStates) {
  const std::vector<float> own = model(1);
  const ModelCoding four = coding(4, own);
  ModelCoding eight = coding(8, own);
  Payload out(eight.bytes());
  std::vector<float> params = own;
  ASSERT_TRUE(eight.write(params, out));
  eight.check(out);
  const auto other = test::must_throw<WireError>([&] { four.check(out); });
  EXPECT_TRUE(test::has(other.what(), "618 bytes; 600 elements in 4 bits take 318"))
      << other.what();
  for (std::size_t cut = 0; cut < out.size(); ++cut) {
    EXPECT_THROW(eight.check(Bytes(out).first(cut)), WireError);
  }
  out[262 + 3] = std::byte{0xff};  // the second block's step is negative
  EXPECT_THROW(eight.check(out), WireError);

  Payload state;
  base::ByteWriter writer(state);
  writer.put(std::uint64_t{9});
  for (const float interval : {1.0f, 1.0f}) writer.put(interval);
  writer.put(std::uint64_t{1});
  writer.put(-1.0f);
  base::ByteReader reader(state, "state");
  EXPECT_THROW(eight.load(reader), WireError);
}

}  // namespace
}  // namespace thinwire::strategy
