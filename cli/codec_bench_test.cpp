// thinwire bench codec in one process.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/test_call.h"
#include "tests/words.h"
#include "thinwire/codec.h"

namespace thinwire::cli {
namespace {

Outcome bench(const Words& more) { return call(Words{"bench", "codec"} + more); }

TEST(BenchCodec, PrintsTheContractsKeysForEveryCodec) {
  const Outcome outcome = bench({"--numel", "100k", "--reps", "2", "--warmup", "1", "--json"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  const std::set<std::string> contract = {
      "codec",
      "numel",
      "bytes",
      "bytes_per_coordinate",
      "entropy_bytes_per_coordinate",
      "encode_seconds_median",
      "decode_seconds_median",
      "encode_ratio_to_add",
      "decode_ratio_to_add",
      "reps",
  };
  std::istringstream stream(outcome.out);
  std::map<std::string, nlohmann::json> lines;
  for (std::string text; std::getline(stream, text);) {
    const nlohmann::json line = nlohmann::json::parse(text);
    std::set<std::string> keys;
    for (const auto& [key, value] : line.items()) keys.insert(key);
    EXPECT_EQ(keys, contract);
    EXPECT_EQ(line["numel"], 100'000);
    EXPECT_EQ(line["reps"], 2);
    EXPECT_GE(line["bytes_per_coordinate"], line["entropy_bytes_per_coordinate"]);
    lines[line["codec"]] = line;
  }
  ASSERT_EQ(lines.size(), codecs().size());
  EXPECT_EQ(lines["raw"]["bytes"], 400'032);
  EXPECT_EQ(lines["raw"]["entropy_bytes_per_coordinate"], 4.0);
  EXPECT_EQ(lines["half"]["bytes"], 200'032);
  EXPECT_LT(lines["sparse"]["bytes"], 100 * 4);
  EXPECT_NEAR(lines["sparse"]["entropy_bytes_per_coordinate"], 3.43, 0.01);
}

TEST(BenchCodec, PrintsATableForPeople) {
  const Outcome outcome = bench({"--numel", "1000", "--reps", "1", "--codec",
                                 "sparse:density=0.1,values=fp32", "--codec", "half:dtype=fp16"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  for (const std::string_view part : {"1000 floats", "entropy", "above it", "r += g",
                                      "sparse:density=0.1,values=fp32", "half:dtype=fp16"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in: " << outcome.out;
  }
}

TEST(BenchCodec, RefusesNonsenseBeforeItStarts) {
  const auto refused = [](std::vector<std::string> arguments, std::string_view part) {
    const Outcome outcome = bench(std::move(arguments));
    EXPECT_EQ(outcome.code, kBadUsage) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " not in: " << outcome.err;
  };
  refused({"--codec", "spars"}, "did you mean 'sparse'?");
  refused({"--codec", "sparse:density=2"}, "density=2");
  refused({"--numel", "0"}, "--numel 0");
  refused({"--numel", "9999M"}, "2^32");
  refused({"--reps", "0"}, "--reps 0");
  refused({"--warmup", "-1"}, "--warmup -1");
}

}  // namespace
}  // namespace thinwire::cli
