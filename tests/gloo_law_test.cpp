// The transport laws over Gloo, each rank a process, and what happens when one is killed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "testing/child_process.h"
#include "testing/reserved_port.h"
#include "tests/laws.h"
#include "tests/survivor.h"

namespace thinwire {
namespace {

using test::operator+;

// All ranks of one law. They meet at a port that is theirs as long as the group lives.
class Group {
 public:
  Group(const laws::Law& law, const std::vector<std::string>& flags) {
    for (int rank = 0; rank < law.ranks; ++rank) {
      std::vector<std::string> command = {
          LAW_WORKER, "gloo",          std::string(law.name), "--rank", fmt::format("{}", rank),
          "--master", port_.endpoint()};
      command.insert(command.end(), flags.begin(), flags.end());
      ranks_.push_back(std::make_unique<test::ChildProcess>(command));
    }
  }
  test::ChildProcess& operator[](int rank) { return *ranks_.at(static_cast<std::size_t>(rank)); }
  int size() const { return static_cast<int>(ranks_.size()); }

 private:
  const test::ReservedPort port_;
  std::vector<std::unique_ptr<test::ChildProcess>> ranks_;
};

// For a busy machine to start and to end processes; on an idle one they take a second or two.
constexpr Seconds kPatience{120};

class GlooLaw : public testing::TestWithParam<std::tuple<const char*, laws::Law>> {};

TEST_P(GlooLaw, Holds) {
  const auto& [network, law] = GetParam();
  std::vector<std::string> flags;
  if (*network != '\0') flags = {"--network", network};
  Group group(law, flags);
  for (int rank = 0; rank < group.size(); ++rank) {
    EXPECT_TRUE(group[rank].wait(kPatience)) << rank << ": " << group[rank].describe();
    EXPECT_EQ(group[rank].exit_code(), 0) << rank << ": " << group[rank].describe();
  }
}

INSTANTIATE_TEST_SUITE_P(All, GlooLaw,
                         testing::Combine(testing::Values("", "20gbit,0.1ms"),
                                          testing::ValuesIn(laws::all().begin(),
                                                            laws::all().end())),
                         [](const auto& law) {
                           return std::string(*std::get<0>(law.param) == '\0' ? "bare_"
                                                                              : "shaped_") +
                                  std::string(std::get<1>(law.param).name);
                         });

// A deadline far beyond our patience: a survivor that ends in time noticed the closed connection.
const std::vector<std::string> kEndless = {"--timeout", "100000"};

// Expects that the last error in `err` says that this rank lost that one while it exchanged
// messages, because its process ended and not because a deadline passed.
void expect_lost(const std::string& err, int rank, int victim) {
  const std::size_t at = err.rfind(laws::kFieldsPrefix);
  ASSERT_NE(at, std::string::npos) << err;
  const std::size_t begin = at + std::string_view(laws::kFieldsPrefix).size();
  const auto fields = nlohmann::json::parse(err.substr(begin, err.find('\n', begin) - begin));
  EXPECT_EQ(fields["kind"], "lost") << fields;
  EXPECT_EQ(fields["rank"], rank) << fields;
  EXPECT_EQ(fields["peer"], victim) << fields;
  EXPECT_TRUE(fields["host"].is_string()) << fields;
  EXPECT_TRUE(fields["operation"] == "send" || fields["operation"] == "receive") << fields;
  EXPECT_TRUE(fields["bytes_done"].is_number()) << fields;
  EXPECT_TRUE(fields["seconds"].is_number()) << fields;
}

// Each survivor of a rank that has just been killed ends by itself and names it, also those that
// were waiting for another one.
void expect_all_name(Group& group, int victim) {
  for (int rank = 0; rank < group.size(); ++rank) {
    EXPECT_TRUE(group[rank].wait(kPatience)) << rank << ": " << group[rank].describe();
    if (rank == victim) continue;
    EXPECT_EQ(group[rank].exit_code(), 1) << rank << ": " << group[rank].describe();
    expect_lost(group[rank].err(), rank, victim);
  }
}

class GlooDeath : public testing::TestWithParam<int> {};

TEST_P(GlooDeath, EverySurvivorNamesTheKilledRank) {
  const int victim = GetParam();
  Group group(laws::chatter(), kEndless);
  for (int rank = 0; rank < group.size(); ++rank) {
    ASSERT_TRUE(group[rank].wait_for_output("chatting", kPatience)) << group[rank].describe();
  }
  group[victim].signal(SIGKILL);
  expect_all_name(group, victim);
}

TEST_P(GlooDeath, OfAServerOrAWorkerNextToItEndsTheRun) {
  const int victim = GetParam();  // ranks 0 to 2 serve
  Group group(laws::find("ps:density=0.05,keep=1,servers=3"),
              kEndless + test::Words{"--fault", fmt::format("kill:rank={},at=100", victim)});
  ASSERT_TRUE(group[victim].wait(kPatience)) << group[victim].describe();
  expect_all_name(group, victim);
}

INSTANTIATE_TEST_SUITE_P(Each, GlooDeath, testing::Range(0, 4));

// How often a rank sends or receives in one step of an exchange; the same on every transport.
std::uint64_t operations_per_step(std::string_view strategy, int rank) {
  std::uint64_t operations = 0;
  JoinOptions options;
  options.size = 4;
  run_workers("threads", options, [&](Transport& wire) {
    SurvivorRank one(wire, std::string(strategy));
    one.step();
    if (wire.rank() == rank) operations = one.operations();
  });
  return operations;
}

class GlooExchangeDeath : public testing::TestWithParam<laws::Law> {};

TEST_P(GlooExchangeDeath, NoSurvivorLosesGradientsInAnyRound) {
  const laws::Law& exchange = GetParam();
  constexpr int kVictim = 2;  // of the tree it is an inner node
  const std::uint64_t operations = operations_per_step(exchange.name, kVictim);
  ASSERT_GE(operations, 6u);
  // In the third step, before every round: most have a receive and a send.
  for (std::uint64_t at = 2 * operations; at < 3 * operations; at += 2) {
    Group group(exchange,
                kEndless + test::Words{"--fault", fmt::format("kill:rank={},at={}", kVictim, at)});
    for (int rank = 0; rank < group.size(); ++rank) {
      ASSERT_TRUE(group[rank].wait(kPatience)) << rank << ": " << group[rank].describe();
      if (rank == kVictim) {
        EXPECT_EQ(group[rank].ended_by_signal(), SIGKILL) << group[rank].describe();
        continue;
      }
      EXPECT_EQ(group[rank].out(), "lost nothing\n") << rank << ", at operation " << at;
      expect_lost(group[rank].err(), rank, kVictim);
      EXPECT_EQ(group[rank].exit_code(), 1) << rank << ": " << group[rank].describe();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, GlooExchangeDeath,
                         testing::ValuesIn(laws::exchanges().begin(), laws::exchanges().end()));

}  // namespace
}  // namespace thinwire
