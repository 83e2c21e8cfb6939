// run.jsonl: what a resumed run keeps of it.
#include "observe/run_log.h"

#include <gtest/gtest.h>

#include <sstream>

#include "testing/scratch_directory.h"

namespace thinwire::observe {
namespace {

std::string content(const std::filesystem::path& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

TEST(RunLog, AResumedRunReplacesTheStepsThatItRepeats) {
  const test::ScratchDirectory scratch;
  const std::filesystem::path file = scratch.path() / "run.jsonl";
  {
    RunLog log;
    ASSERT_TRUE(log.open(file, /*resumed=*/false));
    for (const std::uint64_t step : {1u, 2u, 3u}) log.write(Json{{"step", step}, {"loss", 0.5}});
  }
  std::ofstream(file, std::ios::app) << "{\"step\":4,\"lo\n";  // killed while it wrote
  RunLog log;
  ASSERT_TRUE(log.open(file, /*resumed=*/true));
  log.drop_from(3);
  log.write(Json{{"step", 3u}, {"loss", 0.25}});
  EXPECT_EQ(content(file),
            "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":0.5}\n{\"step\":3,\"loss\":0.25}\n");
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".tmp"));
}

TEST(RunLog, StartsEmptyUnlessTheRunIsResumed) {
  const test::ScratchDirectory scratch;
  const std::filesystem::path file = scratch.path() / "run.jsonl";
  std::ofstream(file) << "old\n";
  RunLog log;
  EXPECT_FALSE(log.is_open());
  ASSERT_TRUE(log.open(file, /*resumed=*/false));
  EXPECT_EQ(content(file), "");
  RunLog nowhere;
  EXPECT_FALSE(nowhere.open(scratch.path() / "none" / "run.jsonl", /*resumed=*/false));
}

}  // namespace
}  // namespace thinwire::observe
