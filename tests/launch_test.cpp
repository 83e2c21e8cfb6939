// The command line end to end, by every way in which workers are started: thinwire itself, flags,
// torchrun's and Slurm's variables, a real mpirun. And how such runs end when something goes wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launch/discovery.h"
#include "testing/child_process.h"
#include "testing/expect.h"
#include "testing/reserved_port.h"
#include "thinwire/launch.h"

namespace thinwire {
namespace {

using test::operator+;

constexpr Seconds kPatience{60};  // for a busy machine; every run takes a second or two

test::Words bench(const test::Words& flags) {
  return test::Words{THINWIRE, "bench", "allreduce", "--json"} + flags;
}

bool built(std::string_view name) {
  return std::ranges::any_of(transport_backends(),
                             [&](const TransportBackend& backend) { return backend.name == name; });
}

std::string last_line(const std::string& text) {
  const std::string trimmed = text.substr(0, text.find_last_not_of('\n') + 1);
  return trimmed.substr(trimmed.rfind('\n') + 1);
}

// One JSON line and nothing else on stdout.
void expect_result(const std::string& out, std::string_view transport, int workers, int numel) {
  ASSERT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
  const auto line = nlohmann::json::parse(out);
  EXPECT_EQ(line["transport"], transport);
  EXPECT_EQ(line["workers"], workers);
  EXPECT_EQ(line["numel"], numel);
  EXPECT_EQ(line["replicas_identical"], true);
}

// Ranks that were started one by one: all succeed, and only rank 0 prints the result.
void expect_ranks(const std::vector<std::unique_ptr<test::ChildProcess>>& ranks, int numel) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ASSERT_TRUE(ranks[rank]->wait(kPatience)) << rank << ": " << ranks[rank]->describe();
    EXPECT_EQ(ranks[rank]->exit_code(), 0) << rank << ": " << ranks[rank]->describe();
    if (rank > 0) {
      EXPECT_EQ(ranks[rank]->out(), "") << rank;
    }
  }
  expect_result(ranks[0]->out(), "gloo", static_cast<int>(ranks.size()), numel);
}

class LaunchGloo : public testing::Test {
 protected:
  void SetUp() override {
    if (!built("gloo")) GTEST_SKIP() << "gloo is not in this build";
  }
};

TEST_F(LaunchGloo, ByThinwireItself) {
  test::ChildProcess run(bench({"--workers", "3", "--numel", "1000"}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 0) << run.describe();
  expect_result(run.out(), "gloo", 3, 1000);
  EXPECT_TRUE(test::has(run.err(), "dense: 1000 floats, 3 workers over gloo"));
  EXPECT_TRUE(run.wait_for_descendants(kPatience));
}

TEST_F(LaunchGloo, ByThinwireItselfOverAnImitatedNetwork) {
  test::ChildProcess run(bench({"--numel", "4000", "--network", "1gbit,0.2ms", "--reps", "2"}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 0) << run.describe();
  expect_result(run.out(), "gloo", 4, 4000);
}

TEST_F(LaunchGloo, ByFlags) {
  const test::ReservedPort master;
  std::vector<std::unique_ptr<test::ChildProcess>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<test::ChildProcess>(
        bench({"--rank", fmt::format("{}", rank), "--world-size", "3", "--master",
               master.endpoint(), "--numel", "1000"})));
  }
  expect_ranks(ranks, 1000);
}

TEST_F(LaunchGloo, ByTorchrunsVariables) {
  const test::ReservedPort master;
  std::vector<std::unique_ptr<test::ChildProcess>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<test::ChildProcess>(
        bench({"--numel", "1000"}),
        test::Words{fmt::format("RANK={}", rank), "WORLD_SIZE=3",
                    fmt::format("LOCAL_RANK={}", rank), "LOCAL_WORLD_SIZE=3",
                    "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", master.number()),
                    "TORCHELASTIC_USE_AGENT_STORE=False"}));
  }
  expect_ranks(ranks, 1000);
}

// The number of a job decides its port: one whose port is free, kept for it.
struct SlurmJob {
  int id;
  std::unique_ptr<test::ReservedPort> port;
};
SlurmJob free_slurm_job() {
  for (int id = getpid();; ++id) {
    const launch::Environment env = [&](std::string_view name) -> std::optional<std::string> {
      if (name == "SLURM_JOB_ID") return std::to_string(id);
      if (name == "SLURM_PROCID" || name == "SLURM_LOCALID") return "0";
      if (name == "SLURM_NTASKS") return "3";
      if (name == "SLURM_STEP_NODELIST") return "localhost";
      return std::nullopt;
    };
    const launch::PlaceFlags flags;
    const launch::Endpoint master = launch::find_master(flags, env, *launch::discover(flags, env));
    try {
      return {id, std::make_unique<test::ReservedPort>("127.0.0.1", master.port)};
    } catch (const std::runtime_error&) {
      continue;  // somebody else has it
    }
  }
}

TEST_F(LaunchGloo, BySlurmsVariables) {
  const SlurmJob slurm = free_slurm_job();
  std::vector<std::unique_ptr<test::ChildProcess>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<test::ChildProcess>(
        bench({"--numel", "1000", "--transport", "gloo"}),
        test::Words{fmt::format("SLURM_PROCID={}", rank), "SLURM_NTASKS=3",
                    fmt::format("SLURM_LOCALID={}", rank), fmt::format("SLURM_JOB_ID={}", slurm.id),
                    "SLURM_STEP_NODELIST=localhost"}));
  }
  expect_ranks(ranks, 1000);
}

TEST_F(LaunchGloo, IncompleteVariablesAreBadUsage) {
  test::ChildProcess run(bench({"--numel", "1000"}), {"RANK=1"});
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 2) << run.describe();
  EXPECT_TRUE(test::has(run.err(), "WORLD_SIZE is not"));
}

TEST_F(LaunchGloo, AKilledRankIsNamedLast) {
  test::ChildProcess run(
      bench({"--workers", "3", "--numel", "100000", "--fault", "kill:rank=1,at=20"}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 1) << run.describe();
  EXPECT_EQ(run.out(), "");
  EXPECT_TRUE(test::has(last_line(run.err()), ": killed by SIGKILL after ")) << run.describe();
  EXPECT_TRUE(test::has(run.err(), "lost rank 1")) << "survivors report by themselves";
  EXPECT_TRUE(run.wait_for_descendants(kPatience));
}

TEST_F(LaunchGloo, AFailingRankIsNamedLast) {
  test::ChildProcess run(
      bench({"--workers", "3", "--numel", "100000", "--fault", "fail:rank=2,at=20"}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 1) << run.describe();
  EXPECT_TRUE(test::has(last_line(run.err()), ": ended with exit code 1 after ")) << run.describe();
  EXPECT_TRUE(test::has(last_line(run.err()), "fails at operation 20 as planned"))
      << run.describe();
}

TEST_F(LaunchGloo, ASilentRankIsStopped) {
  test::ChildProcess run(bench({"--workers", "3", "--numel", "100000", "--timeout", "3", "--fault",
                                "stall:rank=1,at=20,seconds=500"}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 1) << run.describe();
  EXPECT_TRUE(test::has(last_line(run.err()), "): hung; stopped")) << run.describe();
  EXPECT_TRUE(test::has(last_line(run.err()), "no progress for 3.0")) << run.describe();
  EXPECT_TRUE(run.wait_for_descendants(kPatience));
}

TEST_F(LaunchGloo, AWrongInterfaceIsBadUsageSaidOnce) {
  test::ChildProcess run(bench({"--workers", "3", "--numel", "1000", "--interface", "nosuch0"}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 2) << run.describe();
  EXPECT_TRUE(test::has(last_line(run.err()), "interface 'nosuch0'")) << run.describe();
}

const test::Words kEndless = {"--numel", "100000", "--reps", "100000000"};

TEST_F(LaunchGloo, CtrlCStopsEverything) {
  for (const int signal : {SIGINT, SIGTERM}) {
    test::ChildProcess run(bench(kEndless));
    ASSERT_TRUE(run.wait_for_output("100000 floats", kPatience)) << run.describe();
    EXPECT_EQ(run.running().size(), 5u) << "four workers and their launcher";
    run.signal(signal);
    ASSERT_TRUE(run.wait(kPatience)) << run.describe();
    EXPECT_EQ(run.exit_code(), 130) << run.describe();
    EXPECT_TRUE(run.running().empty()) << run.describe();
  }
}

TEST_F(LaunchGloo, WorkersDieWithTheirLauncher) {
  test::ChildProcess run(bench(kEndless));
  ASSERT_TRUE(run.wait_for_output("100000 floats", kPatience)) << run.describe();
  run.signal(SIGKILL);
  EXPECT_TRUE(run.wait_for_descendants(kPatience)) << run.describe();
}

class LaunchInProcess : public testing::TestWithParam<const char*> {};

TEST_P(LaunchInProcess, RunsAndStopsOnCtrlC) {
  if (!built(GetParam())) GTEST_SKIP() << GetParam() << " is not in this build";
  test::ChildProcess once(bench({"--transport", GetParam(), "--workers", "3", "--numel", "1000"}));
  ASSERT_TRUE(once.wait(kPatience)) << once.describe();
  expect_result(once.out(), GetParam(), 3, 1000);

  test::ChildProcess endless(bench(test::Words{"--transport", GetParam()} + kEndless));
  ASSERT_TRUE(endless.wait_for_output("100000 floats", kPatience)) << endless.describe();
  endless.signal(SIGINT);
  ASSERT_TRUE(endless.wait(kPatience)) << endless.describe();
  EXPECT_EQ(endless.exit_code(), 130) << endless.describe();
}

INSTANTIATE_TEST_SUITE_P(Each, LaunchInProcess, testing::Values("threads", "sim"),
                         [](const auto& backend) { return std::string(backend.param); });

class LaunchMpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!built("mpi")) GTEST_SKIP() << "mpi is not in this build";
  }

  // As root and with more ranks than cores, as in containers and on small machines.
  static test::Words mpirun(int ranks, const test::Words& command) {
    return test::Words{MPIRUN,  "--allow-run-as-root",   "--oversubscribe",
                       "--mca", "oob_tcp_if_include",    "lo",
                       "--mca", "btl_tcp_if_include",    "lo",
                       "-n",    fmt::format("{}", ranks)} +
           command;
  }
};

TEST_F(LaunchMpi, ByMpirun) {
  test::ChildProcess job(mpirun(3, bench({"--numel", "1000"})));  // mpi is the default there
  ASSERT_TRUE(job.wait(kPatience)) << job.describe();
  EXPECT_EQ(job.exit_code(), 0) << job.describe();
  expect_result(job.out(), "mpi", 3, 1000);
}

TEST_F(LaunchMpi, MpirunAsALauncherOnly) {
  if (!built("gloo")) GTEST_SKIP() << "gloo is not in this build";
  test::ChildProcess job(mpirun(3, bench({"--numel", "1000", "--transport", "gloo"})));
  ASSERT_TRUE(job.wait(kPatience)) << job.describe();
  EXPECT_EQ(job.exit_code(), 0) << job.describe();
  expect_result(job.out(), "gloo", 3, 1000);
}

TEST_F(LaunchMpi, WithoutMpirunIsBadUsage) {
  test::ChildProcess run(bench({"--transport", "mpi", "--workers", "3"}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 2) << run.describe();
  EXPECT_TRUE(test::has(run.err(), "mpirun -n 3 thinwire"));
}

TEST_F(LaunchMpi, WorkersMustAgreeWithMpirun) {
  test::ChildProcess job(mpirun(2, bench({"--workers", "3"})));
  ASSERT_TRUE(job.wait(kPatience)) << job.describe();
  EXPECT_EQ(job.exit_code(), 2) << job.describe();
  EXPECT_TRUE(test::has(job.err(), "--workers 3: Open MPI says 2"));
}

}  // namespace
}  // namespace thinwire
