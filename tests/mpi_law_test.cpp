// The transport laws over MPI, each rank a process of a real mpirun, and how jobs end that fail.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>

#include "testing/child_process.h"
#include "tests/laws.h"

namespace thinwire {
namespace {

using test::operator+;

// Long enough for a busy machine; every test but `huge` takes seconds.
constexpr Seconds kPatience{120};

// As root and with more ranks than cores, as in containers and on small machines. The loopback
// interface serves the launcher and, in tests over TCP, the ranks.
test::Words mpirun(int ranks, const test::Words& launcher_flags, const test::Words& worker) {
  return test::Words{MPIRUN,  "--allow-run-as-root", "--oversubscribe",
                     "--mca", "oob_tcp_if_include",  "lo",
                     "--mca", "btl_tcp_if_include",  "lo",
                     "-n",    std::to_string(ranks)} +
         launcher_flags + test::Words{LAW_WORKER, "mpi"} + worker;
}

struct Setting {
  const char* name;
  test::Words launcher_flags;
  test::Words worker_flags;
};
std::ostream& operator<<(std::ostream& out, const Setting& s) { return out << s.name; }

const Setting kSettings[] = {
    {"bare", {}, {}},
    {"tcp", {"--mca", "btl", "tcp,self"}, {}},
    {"shaped", {}, {"--network", "20gbit,0.1ms"}},
};

class MpiLaw : public testing::TestWithParam<std::tuple<Setting, laws::Law>> {};

TEST_P(MpiLaw, Holds) {
  const auto& [setting, law] = GetParam();
  test::ChildProcess job(mpirun(law.ranks, setting.launcher_flags,
                                test::Words{std::string(law.name)} + setting.worker_flags));
  ASSERT_TRUE(job.wait(kPatience)) << job.describe();
  EXPECT_EQ(job.exit_code(), 0) << job.describe();
  EXPECT_TRUE(job.wait_for_descendants(kPatience));
}

INSTANTIATE_TEST_SUITE_P(All, MpiLaw,
                         testing::Combine(testing::ValuesIn(kSettings),
                                          testing::ValuesIn(laws::all().begin(),
                                                            laws::all().end())),
                         [](const auto& law) {
                           return fmt::format("{}_{}", std::get<0>(law.param).name,
                                              std::get<1>(law.param).name);
                         });

// A job that is to fail: what must be in its output.
void expect_failure(test::ChildProcess& job, std::string_view text) {
  ASSERT_TRUE(job.wait(kPatience)) << job.describe();
  EXPECT_NE(job.exit_code(), 0) << job.describe();
  EXPECT_NE(job.merged().find(text), std::string::npos) << job.describe();
  EXPECT_TRUE(job.wait_for_descendants(kPatience)) << "ranks are left running";
}

// With a timeout beyond our patience: it is the launcher that ends the others.
const test::Words kEndless = {"--timeout", "1000"};

TEST(MpiJob, OfAThrowingRankEndsWithItsMessage) {
  test::ChildProcess job(
      mpirun(4, {}, test::Words{"chatter", "--fault", "fail:rank=2,at=50"} + kEndless));
  expect_failure(job, "law_worker: rank 2 fails at operation 50 as planned");
}

TEST(MpiJob, OfAKilledRankEnds) {
  test::ChildProcess job(mpirun(4, {}, test::Words{"chatter"} + kEndless));
  ASSERT_TRUE(job.wait_for_output("chatting", kPatience)) << job.describe();
  for (const pid_t pid : job.running()) {
    if (pid == job.pid()) continue;
    kill(pid, SIGKILL);
    break;
  }
  expect_failure(job, "signal 9");
}

TEST(MpiJob, EndsItsRanksIfTheLauncherIsKilled) {
  test::ChildProcess job(mpirun(4, {}, test::Words{"chatter"} + kEndless));
  ASSERT_TRUE(job.wait_for_output("chatting", kPatience)) << job.describe();
  job.signal(SIGKILL);
  ASSERT_TRUE(job.wait(kPatience));
  EXPECT_TRUE(job.wait_for_descendants(kPatience)) << "ranks are left running";
}

TEST(MpiJob, OfASilentRankEndsByTheDeadlineOfAnother) {
  test::ChildProcess job(
      mpirun(2, {}, {"order", "--timeout", "1", "--fault", "stall:rank=1,at=3,seconds=1000"}));
  expect_failure(job, "while sending to rank 1");
}

// MPI_Finalize would wait for it for ever.
TEST(MpiJob, OfARankThatStopsAtTheEndEndsByTheDeadlineOfTheOthers) {
  test::ChildProcess job(mpirun(3, {}, {"stop_at_the_end", "--timeout", "1"}));
  for (const int rank : {0, 1}) {
    expect_failure(job, fmt::format("law_worker: rank {} (", rank));
  }
  expect_failure(job, "lost rank 2 (");
  expect_failure(job, "while leaving the group: no sign of it for 1.0 s");
}

// The task that waits for messages has no deadline of its own.
TEST(MpiJob, OfARankThatStopsInGossipEndsByTheDeadlineOfTheOther) {
  test::ChildProcess job(mpirun(2, {}, {"stop_in_gossip", "--timeout", "1"}));
  expect_failure(job, "law_worker: rank 0 (");
  expect_failure(job, "rank 1 (");
}

TEST(MpiJob, RefusesAnotherNumberOfProcessesThanWorkers) {
  test::ChildProcess job(mpirun(2, {}, {"exchange"}));
  expect_failure(job, "the MPI launcher started 2 processes, but 4 workers were asked for");
}

TEST(MpiJob, RefusesAnotherRankThanTheLaunchers) {
  test::ChildProcess job(mpirun(2, {}, {"order", "--rank", "1"}));
  expect_failure(job, "MPI made this process rank 0, but rank 1 was asked for");
}

TEST(MpiJob, RefusesSeveralWorkersWithoutALauncher) {
  test::ChildProcess job({LAW_WORKER, "mpi", "order"});
  expect_failure(job, "start it with `mpirun -n 2 ...`");
}

TEST(MpiJob, OfOneNeedsNoLauncher) {
  test::ChildProcess job({LAW_WORKER, "mpi", "alone"});
  ASSERT_TRUE(job.wait(kPatience)) << job.describe();
  EXPECT_EQ(job.exit_code(), 0) << job.describe();
}

TEST(MpiJob, MayRunSeveralTimesInAProcess) {
  test::ChildProcess job(mpirun(2, {}, {"lanes", "--repeat", "3"}));
  ASSERT_TRUE(job.wait(kPatience)) << job.describe();
  EXPECT_EQ(job.exit_code(), 0) << job.describe();
}

TEST(MpiJob, IsRefusedInAProcessWhereOneFailed) {
  test::ChildProcess job(mpirun(
      2, {}, test::Words{"order", "--fault", "fail:rank=1,at=3", "--repeat", "2"} + kEndless));
  expect_failure(job, "an earlier run over MPI failed in this process");
}

}  // namespace
}  // namespace thinwire
