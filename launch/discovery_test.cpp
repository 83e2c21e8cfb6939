#include "launch/discovery.h"

#include <gtest/gtest.h>

#include <map>

#include "launch/hostlist.h"
#include "thinwire/error.h"

namespace thinwire::launch {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Environment fake(Variables variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

void expect_refused(const Variables& variables, std::initializer_list<std::string_view> parts,
                    const PlaceFlags& flags = {}) {
  const std::string text = refusal([&] { discover(flags, fake(variables)); });
  for (const std::string_view part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
}

Endpoint master(const Variables& variables, const PlaceFlags& flags = {}) {
  const auto place = discover(flags, fake(variables));
  return find_master(flags, fake(variables), place.value());
}

const Variables kTorchrun = {{"RANK", "2"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "0"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node1"},
                             {"MASTER_PORT", "1234"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"OMPI_MCA_ess_base_jobid", "1897463809"}};
const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "6"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_NODELIST", "node[03-05]"}};

Variables with(Variables variables, std::string name, std::string value) {
  variables[std::move(name)] = std::move(value);
  return variables;
}

TEST(Discovery, StartedByHand) {
  EXPECT_FALSE(discover({}, fake({})));
  // What a shell inside a Slurm allocation has; and variables that are set to nothing.
  EXPECT_FALSE(discover({}, fake({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}})));
  EXPECT_FALSE(discover({}, fake({{"RANK", ""}, {"MASTER_ADDR", "node1"}})));
}

TEST(Discovery, Torchrun) {
  const auto place = discover({}, fake(kTorchrun));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, Launcher::torchrun);
  EXPECT_EQ(place->source, "torchrun");
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->local_rank, 0);
  EXPECT_EQ(place->local_size, 2);
  EXPECT_EQ(master(kTorchrun), (Endpoint{"node1", 1234}));
}

TEST(Discovery, TorchrunThatKeepsItsPort) {
  const auto store = [](const char* value) {
    return with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", value);
  };
  EXPECT_EQ(master(store("True")), (Endpoint{"node1", 1235}));
  EXPECT_EQ(master(store("False")), (Endpoint{"node1", 1234}));
  const std::string text = refusal([&] { master(with(store("True"), "MASTER_PORT", "65535")); });
  EXPECT_NE(text.find("--master_port"), std::string::npos) << text;
}

TEST(Discovery, OpenMpi) {
  const auto place = discover({}, fake(kOpenMpi));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, Launcher::open_mpi);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->local_rank, 3);
  EXPECT_EQ(place->local_size, 4);
}

TEST(Discovery, OpenMpiOnOneMachineMeetsAtAPortOfTheJob) {
  const Endpoint first = master(kOpenMpi);
  EXPECT_EQ(first.host, "127.0.0.1");
  EXPECT_GE(first.port, kFirstJobPort);
  EXPECT_LT(first.port, kFirstJobPort + kJobPorts);
  EXPECT_EQ(master(with(kOpenMpi, "OMPI_COMM_WORLD_RANK", "0")), first);
  EXPECT_NE(master(with(kOpenMpi, "OMPI_MCA_ess_base_jobid", "1897463810")), first);
}

TEST(Discovery, OpenMpiOnSeveralMachinesNeedsAMaster) {
  const Variables spread = with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  const Variables placed = with(spread, "OMPI_COMM_WORLD_LOCAL_RANK", "1");
  const std::string text = refusal([&] { master(placed); });
  EXPECT_NE(text.find("Open MPI"), std::string::npos) << text;
  EXPECT_NE(text.find("--master HOST:PORT"), std::string::npos) << text;
  EXPECT_NE(text.find("MASTER_ADDR"), std::string::npos) << text;
  EXPECT_EQ(master(with(placed, "MASTER_ADDR", "node9")), (Endpoint{"node9", kDefaultPort}));
  PlaceFlags flags;
  flags.master = "node7:99";
  EXPECT_EQ(master(placed, flags), (Endpoint{"node7", 99}));
}

TEST(Discovery, Pmi) {
  const Variables pmi = {
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  const auto place = discover({}, fake(pmi));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, Launcher::pmi);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->size, 2);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_size, 2);
  EXPECT_EQ(master(pmi), (Endpoint{"127.0.0.1", kDefaultPort}));
  // srun --mpi=pmi2: the rank is PMI's, the hosts are Slurm's.
  Variables slurm = kSlurm;
  slurm["PMI_RANK"] = "5";
  slurm["PMI_SIZE"] = "6";
  EXPECT_EQ(discover({}, fake(slurm))->launcher, Launcher::pmi);
  EXPECT_EQ(master(slurm).host, "node03");
}

TEST(Discovery, Slurm) {
  const auto place = discover({}, fake(kSlurm));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, Launcher::slurm);
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->size, 6);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_size, 0);
  const Endpoint endpoint = master(kSlurm);
  EXPECT_EQ(endpoint.host, "node03");
  EXPECT_GE(endpoint.port, kFirstJobPort);
  EXPECT_EQ(master(with(kSlurm, "SLURM_PROCID", "0")), endpoint);
}

TEST(Discovery, SlurmStepsDifferFromTheirJob) {
  Variables step = with(kSlurm, "SLURM_STEP_NUM_TASKS", "2");
  step["SLURM_PROCID"] = "1";
  step["SLURM_STEP_NODELIST"] = "node04";
  step["SLURM_JOB_NODELIST"] = "node[03-05]";
  const auto place = discover({}, fake(step));
  EXPECT_EQ(place->size, 2);
  EXPECT_EQ(place->local_size, 2);
  EXPECT_EQ(master(step).host, "127.0.0.1");
}

TEST(Discovery, TheOrderOfTheLaunchers) {
  Variables all = kSlurm;
  all.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(discover({}, fake(all))->launcher, Launcher::open_mpi);
  all.insert({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  EXPECT_EQ(discover({}, fake(all))->launcher, Launcher::open_mpi);
  all.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(discover({}, fake(all))->launcher, Launcher::torchrun);
  PlaceFlags flags;
  flags.rank = 1;
  flags.world_size = 3;
  const auto place = discover(flags, fake(all));
  EXPECT_EQ(place->launcher, Launcher::flags);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->size, 3);
}

TEST(Discovery, ExplicitFlags) {
  PlaceFlags flags;
  flags.rank = 2;
  expect_refused({}, {"--rank: --world-size is missing"}, flags);
  flags.world_size = 2;
  expect_refused({}, {"--rank=2", "--world-size=2", "0 ... 1"}, flags);
  flags.rank = -1;
  expect_refused({}, {"--rank -1", "0 ... 1"}, flags);
  flags.rank.reset();
  expect_refused({}, {"--world-size: --rank is missing"}, flags);
  flags.rank = 0;
  flags.world_size = 0;
  expect_refused({}, {"--world-size 0"}, flags);

  flags.world_size = 2;
  EXPECT_NE(refusal([&] { master({}, flags); }).find("--master HOST:PORT"), std::string::npos);
  const auto parsed = [&](const char* text) {
    flags.master = text;
    return master({}, flags);
  };
  EXPECT_EQ(parsed("node1:7000"), (Endpoint{"node1", 7000}));
  EXPECT_EQ(parsed("node1"), (Endpoint{"node1", kDefaultPort}));
  EXPECT_EQ(parsed("[fd00::1]:7000"), (Endpoint{"fd00::1", 7000}));
  for (const char* wrong :
       {"", ":7000", "node1:", "node1:0", "node1:70000", "node1:x", "[fd00::1"}) {
    EXPECT_NE(refusal([&] { parsed(wrong); }).find("--master"), std::string::npos) << wrong;
  }
}

TEST(Discovery, IncompleteOrContradictoryVariables) {
  expect_refused({{"RANK", "1"}}, {"RANK=1", "WORLD_SIZE is not", "torchrun"});
  expect_refused({{"WORLD_SIZE", "4"}}, {"WORLD_SIZE=4", "RANK is not"});
  expect_refused(with(kTorchrun, "RANK", "four"), {"RANK=four", "whole number"});
  expect_refused(with(kTorchrun, "RANK", "4"), {"RANK=4", "WORLD_SIZE=4", "0 ... 3"});
  expect_refused(with(kTorchrun, "RANK", "-1"), {"RANK=-1", "0 ..."});
  expect_refused(with(kTorchrun, "WORLD_SIZE", "0"), {"WORLD_SIZE=0", "1 ..."});
  expect_refused(with(kTorchrun, "LOCAL_RANK", "2"), {"LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"});
  expect_refused(with(kTorchrun, "LOCAL_WORLD_SIZE", "9"), {"LOCAL_WORLD_SIZE=9", "1 ... 4"});
  expect_refused({{"OMPI_COMM_WORLD_RANK", "0"}}, {"OMPI_COMM_WORLD_SIZE is not", "Open MPI"});
  expect_refused({{"PMI_SIZE", "2"}}, {"PMI_SIZE=2", "PMI_RANK is not"});
  expect_refused({{"SLURM_PROCID", "0"}}, {"SLURM_PROCID=0", "SLURM_NTASKS is not", "Slurm"});
  expect_refused(with(kSlurm, "SLURM_STEP_NODELIST", "node[3-"), {"SLURM_STEP_NODELIST=node[3-"});
  const std::string port = refusal([] { master(with(kTorchrun, "MASTER_PORT", "http")); });
  EXPECT_NE(port.find("MASTER_PORT=http"), std::string::npos) << port;
}

TEST(Discovery, Interface) {
  PlaceFlags flags;
  EXPECT_EQ(find_interface(flags, fake({})), "");
  EXPECT_EQ(find_interface(flags, fake({{"GLOO_SOCKET_IFNAME", "eth1"}})), "eth1");
  flags.interface = "eth0";
  EXPECT_EQ(find_interface(flags, fake({{"GLOO_SOCKET_IFNAME", "eth1"}})), "eth0");
}

TEST(HostList, Expands) {
  using Hosts = std::vector<std::string>;
  const auto expand = [](std::string_view text) { return expand_hostlist(text, "V"); };
  EXPECT_EQ(expand("node1"), (Hosts{"node1"}));
  EXPECT_EQ(expand("a,b"), (Hosts{"a", "b"}));
  EXPECT_EQ(expand("node[03-05,7]"), (Hosts{"node03", "node04", "node05", "node7"}));
  EXPECT_EQ(expand("n[9-11],login"), (Hosts{"n9", "n10", "n11", "login"}));
  EXPECT_EQ(expand("r[1-2]n[0,3].lan"), (Hosts{"r1n0.lan", "r1n3.lan", "r2n0.lan", "r2n3.lan"}));
}

TEST(HostList, RefusesWhatDoesNotAddUp) {
  for (const std::string_view text :
       {"", "a,", "n[1", "n1]", "n[[1]]", "n[]", "n[2-1]", "n[a]", "n[1-]", "n[0-99999999999]"}) {
    const std::string refused = refusal([&] { expand_hostlist(text, "SLURM_NODELIST"); });
    EXPECT_NE(refused.find("SLURM_NODELIST="), std::string::npos) << text << ": " << refused;
  }
}

}  // namespace
}  // namespace thinwire::launch
