#include "testing/child_process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <system_error>

namespace thinwire {
namespace {

constexpr Seconds kPatience{20};

std::vector<std::string> shell(std::string script) { return {"sh", "-c", std::move(script)}; }

TEST(ChildProcess, TellsExitCodeAndOutput) {
  test::ChildProcess child(shell("echo to-out; echo to-err >&2; exit 3"));
  ASSERT_TRUE(child.wait(kPatience)) << child.describe();
  EXPECT_EQ(child.exit_code(), 3);
  EXPECT_EQ(child.ended_by_signal(), std::nullopt);
  EXPECT_EQ(child.out(), "to-out\n");
  EXPECT_EQ(child.err(), "to-err\n");
  EXPECT_EQ(child.merged().size(), 14u);
}

TEST(ChildProcess, LosesNothingOfALongOutput) {
  test::ChildProcess child(shell("head -c 3000000 /dev/zero"));
  ASSERT_TRUE(child.wait(kPatience));
  EXPECT_EQ(child.out().size(), 3'000'000u);
}

TEST(ChildProcess, AddsToTheEnvironment) {
  test::ChildProcess child(shell("echo $THINWIRE_COLOUR $HOME"),
                           {"THINWIRE_COLOUR=green", "HOME=/nowhere"});
  ASSERT_TRUE(child.wait(kPatience));
  EXPECT_EQ(child.out(), "green /nowhere\n");
}

TEST(ChildProcess, RefusesAProgramThatIsNotThere) {
  EXPECT_THROW(test::ChildProcess({"/no/such/program"}), std::system_error);
}

TEST(ChildProcess, WaitsNoLongerThanToldAndTellsTheSignal) {
  test::ChildProcess child(shell("echo ready; exec sleep 1000"));
  ASSERT_TRUE(child.wait_for_output("ready", kPatience));
  EXPECT_FALSE(child.wait(Seconds(0.05)));
  EXPECT_EQ(child.exit_code(), std::nullopt);
  child.signal(SIGTERM);
  ASSERT_TRUE(child.wait(kPatience));
  EXPECT_EQ(child.ended_by_signal(), SIGTERM);
  EXPECT_FALSE(child.wait_for_output("never said", kPatience));
}

// A grandchild in a process group of its own, as the ranks of mpirun are, outlives its parent.
TEST(ChildProcess, FindsAndEndsWhatTheProgramLeftRunning) {
  test::ChildProcess child(shell("set -m; sleep 1000 & echo started; exit 0"));
  ASSERT_TRUE(child.wait(kPatience)) << child.describe();
  EXPECT_FALSE(child.wait_for_descendants(Seconds(0)));
  child.kill_all();
  EXPECT_TRUE(child.wait_for_descendants(kPatience));
}

TEST(ChildProcess, IsEndedByItsDestructor) {
  pid_t pid = 0;
  {
    const test::ChildProcess child({"sleep", "1000"});
    pid = child.pid();
  }
  EXPECT_FALSE(std::ifstream("/proc/" + std::to_string(pid) + "/stat").good());
}

}  // namespace
}  // namespace thinwire
