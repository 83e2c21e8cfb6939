// The results of every synchronous strategy, bit for bit: a change of the code that is not meant to
// change what is computed must leave all these numbers as they are. A change that is meant to
// replaces the lines that the failing test prints, and says so in CHANGELOG.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <ostream>

#include "base/hash.h"
#include "testing/quantized_run.h"

namespace thinwire::strategy {
namespace {

constexpr int kSizes[] = {2, 3, 4, 5};

struct Result {
  std::uint64_t hash = 0;   // of the gradients after each step
  std::uint64_t bytes = 0;  // sent by all ranks together

  friend bool operator==(const Result&, const Result&) = default;
};

struct Golden {
  const char* spec;
  Result results[std::size(kSizes)];
};

// Two matrices and a vector, which strategies may treat as a small tensor; momentum and weight
// decay, which some strategies apply themselves.
test::StrategyRun golden_run(std::string spec, int workers) {
  test::StrategyRun run;
  run.spec = std::move(spec);
  run.workers = workers;
  run.numel = 40'000;
  run.tensors = {{"a", 0, {150, 200}}, {"b", 30'000, {200}}, {"c", 30'200, {98, 100}}};
  run.steps = 5;
  run.gradient = test::wide_gradient;
  run.options.steps = 20;
  run.options.steps_per_epoch = 10;
  run.options.sgd = {.momentum = 0.9f, .weight_decay = 0.001f};
  return run;
}

Result result_of(const test::StrategyRun& run) {
  Result out;
  const auto records = test::run_strategy(run);
  std::vector<std::uint64_t> hashes;
  for (const auto& grads : records[0].grads) {
    hashes.push_back(base::hash64(std::as_bytes(std::span(grads))));
  }
  out.hash = base::hash64(std::as_bytes(std::span(hashes)));
  for (const test::RankRecord& record : records) {
    EXPECT_EQ(record.grads, records[0].grads) << run.spec;
    out.bytes += record.bytes_sent;
  }
  return out;
}

std::string line_of(const Golden& golden) {
  std::string out = fmt::format("    {{\"{}\",\n     {{", golden.spec);
  for (std::size_t i = 0; i < std::size(golden.results); ++i) {
    const Result& each = golden.results[i];
    out += fmt::format("{{{:#018x}, {}}}{}", each.hash, each.bytes, i == 1 ? ",\n      " : ", ");
  }
  out.resize(out.size() - 2);
  return out + "}},\n";
}

// clang-format off
constexpr Golden kGolden[] = {
    {"dense",
     {{0x090dc6a45dcf8086, 1600000}, {0x2dcab0deb1b173d0, 3200000},
      {0xc370287efb4af200, 4800000}, {0x61cdd07ffc5260c5, 6400000}}},
    {"dense:dtype=bf16",
     {{0xa4ba55e8a677fe58, 800000}, {0xfd7abb0bd9076210, 1600000},
      {0xb5f42094924dd3e3, 3200000}, {0xaeb552bf39e8dd84, 3200000}}},
    {"dense:dtype=fp16",
     {{0x0fcfdd70ce5b1558, 800000}, {0x836cc0f6d7653c05, 1600000},
      {0x1316f4c35a9b2ef8, 3200000}, {0x26f77e0857e4c5cf, 3200000}}},
    {"topk:density=0.02,warmup=0.25",
     {{0xe54f34289f259631, 241632}, {0x37b473f401941f3c, 724864},
      {0x50b7402062265678, 1449712}, {0x642d9a7fbb7e7bb0, 2416104}}},
    {"topk:density=0.02,warmup=none",
     {{0x8f8134f5506319fa, 23640}, {0xe7bd7d3b84069714, 70880},
      {0x024d573a16920132, 141760}, {0x1e280c3248aeaf48, 236200}}},
    {"topk:density=0.02,values=fp32,warmup=none",
     {{0x5fa4dcbf51259298, 39640}, {0x25c7a1f7b44ff071, 118880},
      {0xd37d409b259a17c8, 237760}, {0xad8a08fe20be41d2, 396200}}},
    {"topk:density=0.02,momentum=plain,warmup=none",
     {{0x1388edb5483a9d33, 23640}, {0x9afd38ef25cb378f, 70880},
      {0xcea759fe9eef8662, 141760}, {0x5f9728039525a0b9, 236200}}},
    {"topk:density=0.02,small=dense,warmup=none",
     {{0x7dfc981f3f760f92, 31640}, {0x14085b1da1f07f5c, 86880},
      {0x65438b24629b0e40, 173760}, {0xb95916003035fb23, 276200}}},
    {"gtopk:density=0.02,warmup=0.25",
     {{0xd948403df24bd984, 241552}, {0x17b21c962b050e35, 489338},
      {0x263d4112e2ac08be, 966248}, {0x8485d3b9b575156e, 1214034}}},
    {"gtopk:density=0.02,warmup=none",
     {{0xb859cd4a9244de12, 23568}, {0x8bf1939b234f7207, 47628},
      {0x3d3e78ee36bc777a, 94248}, {0x90d541e1828f94c1, 118308}}},
    {"gtopk:density=0.02,residual=paper,warmup=none",
     {{0xb859cd4a9244de12, 23568}, {0xb48dcd8cf38192d9, 47128},
      {0xf7d4287ecfdf137f, 94248}, {0xa8b49703d139a197, 117808}}},
    {"gtopk:density=0.02,values=fp32,warmup=none",
     {{0x6b870307ee83ed84, 39568}, {0xccbaecdaa5969807, 79628},
      {0xe7b9aa8bb8395c5c, 158248}, {0x4bf8678400724f39, 198308}}},
    {"gtopk:density=0.02,values=fp32,residual=paper,warmup=none",
     {{0x6b870307ee83ed84, 39568}, {0x3df77bb1a15e1c2d, 79128},
      {0xfc2fd7f8b9d24bb4, 158248}, {0xa802799013882c21, 197808}}},
    {"gtopk:density=0.02,momentum=plain,warmup=none",
     {{0xd20e4284b11f01f1, 23560}, {0xe6fc57ef9cf3de75, 47620},
      {0x0d0c995f91bedd4a, 94256}, {0x1cb2db4d29af5190, 118300}}},
    {"gtopk:density=0.02,small=dense,warmup=none",
     {{0xca0d29bd7b6a6622, 31568}, {0xca62ead6afa396a9, 63628},
      {0x865e2849d28af199, 126248}, {0x797e91d64c4487a4, 158308}}},
    {"qsgd",
     {{0x9dd7fe609bc42f4e, 328440}, {0x4457ddfc3127daec, 619760},
      {0x9b92a3a2b60cb95c, 938080}, {0x5533cd12c9b27ae8, 1348440}}},
    {"qsgd:bits=2",
     {{0x8a55ecf761eead91, 208440}, {0x6bf0ec018c0aa0ed, 418800},
      {0xc8be417ba28614a3, 636640}, {0xd9b5b286b30daa92, 846040}}},
    {"qsgd:bits=8",
     {{0xfe5ff13f2c821d41, 541800}, {0x29921de0339f2ef2, 1021680},
      {0x0e3720d334a98068, 1540960}, {0x1faec70176a06ec5, 2152280}}},
    {"qsgd:scales=4+8",
     {{0x1d68e2078649fa1f, 378680}, {0x9b5287df417c255b, 720240},
      {0xadc6d457c254f988, 1139040}, {0x64b378bd1c4a8999, 1599640}}},
    {"qsgd:bucket=whole",
     {{0xccc7aace99dc1a2e, 328080}, {0x731a3179ccf02c5f, 619040},
      {0xa07625d9eae1f9b6, 936640}, {0x3b502d77896d0ba0, 1346640}}},
    {"grandk:density=0.01,warmup=none",
     {{0x1babc7c3bf6b2387, 4960}, {0x3d5360ce9532550b, 11840},
      {0x91413744fc8027e0, 22080}, {0xc3c9904bed8aeb60, 25760}}},
    {"grandk:density=0.1,warmup=none",
     {{0x2d15b4261beb7021, 34160}, {0x4857a06b12ad1356, 66720},
      {0xba95c037cd0a2855, 151680}, {0xdf637f36b4b183f2, 145040}}},
    {"grandk:density=0.9,warmup=none",
     {{0xbf19b2c6d329bbb8, 293840}, {0xe5d18bd551d1f95b, 552800},
      {0x8b6173468a8f9bbc, 834880}, {0xd6b72e16700ca60a, 1201520}}},
    {"grandk:density=0.1,scales=2+6+10,warmup=none",
     {{0x0d2be5f27aa97519, 32560}, {0xa3d47461291797aa, 66720},
      {0x2ac7f78d9d20d235, 158080}, {0x1700664d884b4a07, 145040}}},
    {"grandk:density=0.1,bucket=whole,warmup=none",
     {{0xd4b8505956c665ca, 33520}, {0x27703e52881448a6, 65440},
      {0x20130096ac7cb178, 149120}, {0x280405448c1edaa3, 141840}}},
    {"powersgd:rank=1,start=1",
     {{0x050ee5c59c2c61d0, 343936}, {0x3b5f3f4bef9cace7, 687872},
      {0x41693b9531c51453, 1055744}, {0x3c599927022db2bc, 1399680}}},
    {"powersgd:rank=4,start=0",
     {{0x69eebcaefd6e7b07, 95680}, {0x16d9fc429dae811e, 191360},
      {0x3975f499bd544914, 382720}, {0x73b43eeb4b645240, 478400}}},
    {"ps:density=0.02,warmup=0.25",
     {{0x5050a6e1ef6fafe0, 320914}, {0xd479fc4ad68fbb54, 749384},
      {0xf8ead900a95bb33c, 1246546}, {0x18355c50fdb42cae, 6400200}}},
    {"ps:density=0.02,warmup=none",
     {{0x9167eb362860675a, 33966}, {0x306294a55b8a19e7, 86984},
      {0xbace63716a04e887, 155458}, {0x673ae44b24ad32a9, 237640}}},
    {"ps:density=0.02,select=magnitude,warmup=none",
     {{0x22f9439f91b36ba8, 33934}, {0x03b3e5e07b469c85, 87672},
      {0x78b23bfebec567c9, 159100}, {0x21c4f184eefa7026, 248144}}},
    {"ps:density=0.02,select=mask,warmup=none",
     {{0x98df1a538730cc4f, 26150}, {0xdc0b231765a8813e, 61312},
      {0x4532c4a233b3a463, 104164}, {0xc9583a0d84afbae5, 154400}}},
    {"ps:density=0.02,keep=1,warmup=none",
     {{0x1bd5795a412a5c62, 23640}, {0x4208ec1660f0087f, 47296},
      {0x180ea3c422600643, 70960}, {0x20ba2b22a353595e, 94600}}},
    {"ps:density=0.02,servers=2,warmup=none",
     {{0x9167eb362860675a, 34440}, {0x306294a55b8a19e7, 88022},
      {0xbace63716a04e887, 156946}, {0x673ae44b24ad32a9, 239708}}},
    {"ps:density=0.02,servers=dedicated,values=fp32,warmup=none",
     {{0xdb66eedb16063544, 39640}, {0x093cd6d405a5ce86, 115592},
      {0x591ec5d5538ca818, 223960}, {0x3a857a7d986a531c, 359864}}},
};
// clang-format on

class GoldenResults : public testing::TestWithParam<Golden> {};
void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.spec; }
INSTANTIATE_TEST_SUITE_P(All, GoldenResults, testing::ValuesIn(kGolden));

TEST_P(GoldenResults, AreTheSameBitForBit) {
  Golden now{GetParam().spec, {}};
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    now.results[i] = result_of(golden_run(now.spec, kSizes[i]));
  }
  EXPECT_TRUE(std::ranges::equal(now.results, GetParam().results)) << line_of(now);
}

// The vector is long enough for qsgd to send each share in several pieces.
TEST(GoldenResult, OfSeveralPiecesAreTheSameBitForBit) {
  test::StrategyRun run = test::matrix_run("qsgd", 4, 12'000, 2);
  const Result now = result_of(run);
  EXPECT_EQ(now.hash, 0xf1023ac03b1d4e07u) << fmt::format("{:#018x}", now.hash);
  EXPECT_EQ(now.bytes, 10819968u);
}

// The table above must have a line for every synchronous strategy.
TEST(GoldenResult, CoverEverySynchronousStrategy) {
  for (const StrategyInfo& info : strategies()) {
    if (sync_mode_of(*make_strategy(info.name)) != SyncMode::synchronous) continue;
    const bool covered = std::ranges::any_of(kGolden, [&](const Golden& golden) {
      const std::string_view spec = golden.spec;
      return spec.substr(0, spec.find(':')) == info.name;
    });
    EXPECT_TRUE(covered) << info.name;
  }
}

}  // namespace
}  // namespace thinwire::strategy
