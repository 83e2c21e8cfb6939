// What every codec promises. The suite walks the registry: a new codec is tested by its line in
// list.inc.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "tests/allocations.h"
#include "tests/expect.h"
#include "thinwire/codec.h"
#include "thinwire/error.h"
#include "thinwire/random.h"

namespace thinwire {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 2, 7, 70, 255, 256, 257, 1023, 1025, 4097};
constexpr std::uint64_t kStep = 41;

// Every codec as it is, with every choice of every key, and at other densities.
std::vector<std::string> specs() {
  std::vector<std::string> out = {"sparse:density=1", "sparse:density=0.4",
                                  "sparse:density=0.05,values=fp32"};
  for (const Entry<Codec>& entry : codecs()) {
    out.emplace_back(entry.name);
    for (const SpecKey& key : keys_of(entry)) {
      std::string_view choices = key.allowed;
      while (choices.find(", ") != std::string_view::npos) {
        choices.remove_prefix(choices.find(", ") + 2);
        const std::string_view choice = choices.substr(0, choices.find(','));
        out.push_back(std::string(entry.name) + ":" + key.name + "=" + std::string(choice));
      }
    }
  }
  return out;
}

// --- Kinds of vectors.

std::vector<float> ordinary(std::size_t numel, std::uint64_t seed) {
  std::vector<float> out;
  for (std::size_t i = 0; i < numel; ++i) {
    const auto random = philox(seed, 0, i, Purpose::test);
    out.push_back((unit_float(random[0]) - 0.5f) *
                  std::ldexp(1.0f, -static_cast<int>(random[1] % 20)));
  }
  return out;
}

std::vector<float> any_bits(std::size_t numel, std::uint64_t seed) {
  std::vector<float> out;
  for (std::size_t i = 0; i < numel; ++i) {
    out.push_back(std::bit_cast<float>(philox(seed, 1, i, Purpose::test)[0]));
  }
  return out;
}

std::vector<float> extremes(std::size_t numel, std::uint64_t) {
  using Limits = std::numeric_limits<float>;
  const float kinds[] = {0.0f,
                         -0.0f,
                         Limits::max(),
                         -Limits::max(),
                         Limits::denorm_min(),
                         -Limits::denorm_min(),
                         Limits::min(),
                         Limits::infinity(),
                         -Limits::infinity(),
                         Limits::quiet_NaN(),
                         65504.0f,
                         65519.0f,
                         65520.0f,
                         -1e6f,
                         1e9f,
                         1e30f,
                         1 + 0x1.0p-8f,
                         0x1.0p-25f,
                         3.4e38f};
  std::vector<float> out;
  for (std::size_t i = 0; i < numel; ++i) out.push_back(kinds[i % std::size(kinds)]);
  return out;
}

std::vector<float> zeros(std::size_t numel, std::uint64_t) { return std::vector<float>(numel); }

constexpr std::vector<float> (*kKinds[])(std::size_t, std::uint64_t) = {ordinary, any_bits,
                                                                        extremes, zeros};

class CodecLaw : public testing::TestWithParam<std::string> {
 protected:
  Payload encoded(MutFloats acc, std::uint64_t step = kStep) {
    Payload out;
    codec->encode(acc, step, out);
    return out;
  }

  const std::unique_ptr<Codec> codec = make_codec(GetParam());
};

// --- Laws.

TEST_P(CodecLaw, WhatIsSentAndWhatStaysIsWhatWasThere) {
  for (const std::size_t numel : kSizes) {
    for (const auto kind : kKinds) {
      std::vector<float> acc = kind(numel, numel);
      for (std::uint64_t step = 0; step < 3; ++step) {  // what stayed is sent on
        const std::vector<float> before = acc;
        const Payload message = encoded(acc, step);
        std::vector<float> sent(numel);
        codec->decode_add(message, step, sent);
        for (std::size_t i = 0; i < numel; ++i) {
          if (std::isnan(before[i])) {
            ASSERT_TRUE(std::isnan(sent[i] + acc[i]));
          } else {
            ASSERT_EQ(sent[i] + acc[i], before[i]) << i << " of " << numel;
          }
          ASSERT_TRUE(std::isfinite(acc[i]) || !std::isfinite(before[i]));
        }
      }
    }
  }
}

TEST_P(CodecLaw, NoMessageIsLongerThanTheBound) {
  for (const std::size_t numel : kSizes) {
    for (const auto kind : kKinds) {
      std::vector<float> acc = kind(numel, 3);
      EXPECT_LE(encoded(acc).size(), codec->max_bytes(numel)) << numel;
    }
    std::vector<float> clustered(numel);  // runs, and one element far away
    for (std::size_t i = 0; i < numel / 3; ++i) clustered[i] = 1;
    if (numel > 0) clustered.back() = 2;
    EXPECT_LE(encoded(clustered).size(), codec->max_bytes(numel)) << numel;
  }
}

TEST_P(CodecLaw, MessagesAreAppendedAndAdded) {
  std::vector<float> acc = ordinary(1000, 5);
  std::vector<float> copy = acc;
  const Payload message = encoded(acc);
  Payload out(3, std::byte{9});
  codec->encode(copy, kStep, out);
  EXPECT_EQ(copy, acc) << "the same input, another result";
  ASSERT_EQ(out.size(), 3 + message.size());
  EXPECT_TRUE(std::equal(message.begin(), message.end(), out.begin() + 3));

  std::vector<float> once(1000), into(1000, 0.25f);
  codec->decode_add(message, kStep, once);
  codec->decode_add(Bytes(out).subspan(3), kStep, into);  // at an odd address
  for (std::size_t i = 0; i < into.size(); ++i) ASSERT_EQ(into[i], 0.25f + once[i]);
}

// --- Foreign bytes.

void expect_refused(Codec& codec, Bytes message, std::uint64_t step, std::size_t numel) {
  const std::vector<float> before = ordinary(numel, 9);
  std::vector<float> into = before;
  EXPECT_THROW(codec.decode_add(message, step, into), WireError);
  EXPECT_EQ(into, before);
}

TEST_P(CodecLaw, RefusesAnotherStepOrSize) {
  std::vector<float> acc = ordinary(300, 5);
  const Payload message = encoded(acc);
  expect_refused(*codec, message, kStep + 1, 300);
  expect_refused(*codec, message, kStep, 299);
  expect_refused(*codec, message, kStep, 301);
  expect_refused(*codec, message, kStep, 0);
  std::vector<float> none;
  expect_refused(*codec, encoded(none), kStep, 300);
}

TEST_P(CodecLaw, RefusesDamageAndOtherLengths) {
  std::vector<float> acc = ordinary(60, 5);
  const Payload message = encoded(acc);
  for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
    Payload damaged = message;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    expect_refused(*codec, damaged, kStep, 60);
  }
  for (std::size_t length = 0; length < message.size(); ++length) {
    const Payload cut(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(length));
    expect_refused(*codec, cut, kStep, 60);
  }
  Payload longer = message;
  longer.push_back({});
  expect_refused(*codec, longer, kStep, 60);
}

TEST_P(CodecLaw, RefusesOtherCodecsAndGarbage) {
  for (const Entry<Codec>& entry : codecs()) {
    if (GetParam().starts_with(entry.name)) continue;
    std::vector<float> acc = ordinary(60, 5);
    Payload message;
    make_codec(entry.name)->encode(acc, kStep, message);
    expect_refused(*codec, message, kStep, 60);
  }
  for (std::size_t length = 0; length < 300; ++length) {
    const std::vector<float> garbage = any_bits(length, length);
    expect_refused(*codec, std::as_bytes(std::span(garbage)), kStep, 60);
  }
}

TEST_P(CodecLaw, NothingIsAllocatedAfterTheFirstCall) {
  const std::vector<float> vector = ordinary(20'000, 7);
  std::vector<float> acc = vector, into(vector.size());
  Payload message;
  const auto round_trip = [&](std::uint64_t step) {
    message.clear();
    codec->encode(acc, step, message);
    codec->decode_add(message, step, into);
  };
  round_trip(0);
  const std::uint64_t before = allocations();
  for (std::uint64_t step = 1; step < 4; ++step) {
    for (std::size_t i = 0; i < acc.size(); ++i) acc[i] += vector[i];
    round_trip(step);
  }
  EXPECT_EQ(allocations() - before, 0u);
}

TEST_P(CodecLaw, SaysHowManyBitsAValueTakes) {
  EXPECT_GE(codec->value_bits(), 1u);
  EXPECT_LE(codec->value_bits(), 32u);
}

INSTANTIATE_TEST_SUITE_P(All, CodecLaw, testing::ValuesIn(specs()), [](const auto& spec) {
  std::string name = spec.param;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
});

// --- The registry.

TEST(Codecs, HoldExactlyTheLinesOfTheList) {
  std::vector<std::string_view> listed;
#define TW_CODEC(word, help) listed.emplace_back(#word);
#include "codec/list.inc"
#undef TW_CODEC
  ASSERT_EQ(codecs().size(), listed.size());
  for (std::size_t i = 0; i < listed.size(); ++i) {
    EXPECT_EQ(codecs()[i].name, listed[i]);
    EXPECT_FALSE(codecs()[i].help.empty());
  }
}

TEST(Codecs, AcceptTheirDefaultsAsValues) {
  for (const Entry<Codec>& entry : codecs()) {
    for (const SpecKey& key : keys_of(entry)) {
      EXPECT_NO_THROW(make_codec(std::string(entry.name) + ":" + key.name + "=" + key.fallback));
    }
  }
}

TEST(Codecs, RefuseUnknownNamesKeysAndValues) {
  const auto refusal = [](std::string_view spec) {
    return std::string(must_throw<ConfigError>([&] { make_codec(spec); }).what());
  };
  EXPECT_TRUE(has(refusal("spars"), "unknown codec 'spars': did you mean 'sparse'?"));
  EXPECT_TRUE(has(refusal("half:dtype=fp32"), "fp16"));
  EXPECT_TRUE(has(refusal("raw:dtype=fp32"), "dtype"));
  EXPECT_TRUE(has(refusal("sparse:density=0"), "density"));
  EXPECT_TRUE(has(refusal("sparse:density=1.1"), "density"));
}

// --- What is special to one.

TEST(HalfCodec, SendsWhatIsTooLargeInParts) {
  const auto codec = make_codec("half:dtype=fp16");
  std::vector<float> acc = {100'000.0f, -1e10f}, sum(2);
  Payload message;
  codec->encode(acc, 0, message);
  codec->decode_add(message, 0, sum);
  EXPECT_EQ(sum[0], 65504.0f);
  EXPECT_EQ(sum[1] + acc[1], -1e10f);
  message.clear();
  codec->encode(acc, 1, message);
  codec->decode_add(message, 1, sum);
  EXPECT_EQ(sum[0], 100'000.0f);
}

TEST(SparseCodec, SendsTheLargest) {
  const auto codec = make_codec("sparse:density=0.02,values=fp32");
  std::vector<float> acc(100, 0.5f), sent(100);
  acc[30] = -3;
  acc[70] = 2;
  Payload message;
  codec->encode(acc, 0, message);
  codec->decode_add(message, 0, sent);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sent[i], i == 30 ? -3 : i == 70 ? 2 : 0);
    EXPECT_EQ(acc[i], i == 30 || i == 70 ? 0 : 0.5f);
  }
}

}  // namespace
}  // namespace thinwire
