#include "thinwire/types.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "testing/expect.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

TEST(Network, ReadsBandwidthAndLatency) {
  const auto expect = [](std::string_view text, double bits, double seconds) {
    const Network network = Network::parse(text);
    EXPECT_DOUBLE_EQ(network.bits_per_second, bits) << text;
    EXPECT_DOUBLE_EQ(network.latency.count(), seconds) << text;
  };
  expect("1gbit,0.2ms", 1e9, 0.2e-3);
  expect("10mbit", 10e6, 0);
  expect("2.5gbit,50us", 2.5e9, 50e-6);
  expect("56kbit,0.1s", 56e3, 0.1);
  expect("unlimited", 0, 0);
  expect("unlimited,30ms", 0, 30e-3);
  expect("1000mbit,0us", 1e9, 0);
  expect("1kbit,1000s", 1e3, 1000);
  expect("1000000gbit", 1e15, 0);
}

TEST(Network, RefusesAllOtherTextWithAnExample) {
  EXPECT_EQ(test::must_throw<ConfigError>([] { Network::parse("fast"); }).what(),
            std::string("network 'fast': 'fast' is not a bandwidth of 1kbit ... 1000000gbit; "
                        "examples: 1gbit,0.2ms  100mbit  unlimited,30ms"));
  for (const char* rate :
       {"",          ",1ms",     "1",           "gbit",    "1Gbit",   "1gb",       "1gbit ",
        " 1gbit",    "0gbit",    "-1gbit",      "-0gbit",  "nangbit", "infgbit",   "1e308gbit",
        "1e400gbit", "1e-9kbit", "1000001gbit", "0x1gbit", "1e3mbit", "1.2.3gbit", ".gbit"}) {
    EXPECT_TRUE(test::has(test::must_throw<ConfigError>([&] { Network::parse(rate); }).what(),
                          "is not a bandwidth"))
        << rate;
  }
  for (const char* latency : {"", "1", "ms", ".ms", "1 ms", "-1ms", "-0ms", "nanms", "infs",
                              "1001s", "1e308s", "1e400s", "1ms,1ms", "1h"}) {
    EXPECT_TRUE(test::has(test::must_throw<ConfigError>([&] {
                            Network::parse("1gbit," + std::string(latency));
                          }).what(),
                          "is not a latency of 0us ... 1000s"))
        << latency;
  }
}

TEST(Network, IsFormattedAsItIsParsed) {
  for (const char* text :
       {"1gbit,0.2ms", "10mbit,0ms", "2.5gbit,50ms", "56kbit,0.05ms", "999mbit,1000ms",
        "unlimited,30ms", "unlimited,0ms", "1.23456789gbit,0.7ms"}) {
    EXPECT_EQ(Network::parse(text).str(), text);
  }
  EXPECT_EQ((Network{500, Seconds(0)}.str()), "0.5kbit,0ms");
}

RC_GTEST_PROP(NetworkProperty, IsReadBackExactly, ()) {
  const auto digits = *rc::gen::inRange<std::uint64_t>(1, 1'000'000'000);
  const auto scale = *rc::gen::inRange(0, 6);
  const auto micros = *rc::gen::inRange<std::uint64_t>(0, 1'000'000'000);
  const double number = static_cast<double>(digits) / std::pow(10, scale);
  const std::string text = std::to_string(1 + number) +
                           *rc::gen::element<std::string>("kbit", "mbit") + "," +
                           std::to_string(static_cast<double>(micros) / 7) + "us";
  const Network network = Network::parse(text);
  const Network again = Network::parse(network.str());
  RC_ASSERT(again.bits_per_second == network.bits_per_second);
  RC_ASSERT(again.latency == network.latency);
}

RC_GTEST_PROP(NetworkProperty, AnyTextIsReadOrRefused, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::element(
      '0', '1', '9', '.', '-', 'e', ',', 'g', 'm', 'k', 'b', 'i', 't', 's', 'u', '\0', '\xff'));
  try {
    const Network network = Network::parse(text);
    RC_ASSERT(network.bits_per_second >= 0 && std::isfinite(network.bits_per_second));
    RC_ASSERT(network.latency >= Seconds(0));
  } catch (const ConfigError&) {
  }
}

TEST(Network, TransferTimeIsBitsOverBandwidth) {
  EXPECT_EQ((Network{1e9, Seconds(1)}.transfer_time(125'000'000)), Seconds(1));
  EXPECT_EQ((Network{0, Seconds(1)}.transfer_time(125'000'000)), Seconds(0));
}

}  // namespace
}  // namespace thinwire
