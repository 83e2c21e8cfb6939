// The programs in examples/ learn what they claim, on threads and as processes.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "testing/child_process.h"
#include "testing/model_run.h"
#include "testing/reserved_port.h"

namespace thinwire {
namespace {

constexpr Seconds kPatience{120};  // for a busy machine; a run takes a second or two

void expect_success(test::ChildProcess& program) {
  ASSERT_TRUE(program.wait(kPatience)) << program.describe();
  EXPECT_EQ(program.exit_code(), 0) << program.describe();
}

TEST(Example, TrainsOnThreads) {
  test::ChildProcess program({TRAIN_PLAIN});
  expect_success(program);
  EXPECT_NE(program.out().find("with 4 workers"), std::string::npos) << program.out();
}

TEST(Example, TrainsAsProcessesOfWhichTheFirstReports) {
  if (!test::has_backend("gloo")) GTEST_SKIP() << "gloo is not in this build";
  const test::ReservedPort port;
  std::vector<std::unique_ptr<test::ChildProcess>> ranks;
  for (const char* rank : {"0", "1", "2"}) {
    ranks.push_back(std::make_unique<test::ChildProcess>(
        std::vector<std::string>{TRAIN_PLAIN, rank, "3", std::to_string(port.number())}));
  }
  for (const auto& rank : ranks) expect_success(*rank);
  EXPECT_NE(ranks[0]->out().find("with 3 workers"), std::string::npos) << ranks[0]->out();
  EXPECT_EQ(ranks[1]->out() + ranks[2]->out(), "");
}

TEST(Example, SaysWhatIsWrong) {
  test::ChildProcess program({TRAIN_PLAIN, "0", "none"});
  ASSERT_TRUE(program.wait(kPatience)) << program.describe();
  EXPECT_EQ(program.exit_code(), 1);
  EXPECT_EQ(program.err().find("train_plain: "), 0u) << program.err();
}

}  // namespace
}  // namespace thinwire
