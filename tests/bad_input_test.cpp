// What users type by mistake: refused at once, by a message that names the flag and what is
// allowed, never by a crash, a hang, or a run that fails after hours.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "testing/child_process.h"
#include "testing/expect.h"
#include "thinwire/launch.h"

namespace thinwire {
namespace {

using test::operator+;

constexpr Seconds kPatience{60};  // for a busy machine

struct Mistake {
  test::Words words;  // of the command line
  std::string says;   // among the errors
};
std::ostream& operator<<(std::ostream& out, const Mistake& mistake) {
  for (const std::string& word : mistake.words) out << word << ' ';
  return out;
}

void expect_refused(const Mistake& mistake, const test::Words& environment = {}) {
  SCOPED_TRACE(mistake);
  test::ChildProcess run(test::Words{THINWIRE} + mistake.words, environment);
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 2) << run.describe();
  EXPECT_EQ(run.out(), "");
  EXPECT_TRUE(test::has(run.err(), mistake.says));
  EXPECT_FALSE(test::has(run.err(), "please report it"));
}

// Of those that cli/bad_input_test.cpp has, what could end a process or take a machine down.
TEST(BadInput, AbsurdSizes) {
  for (const Mistake& mistake : std::initializer_list<Mistake>{
           {{"bench", "allreduce", "--workers", "99999"}, "--workers 99999: at most 1024"},
           {{"bench", "allreduce", "--numel", "1000000M"}, "--numel: 1000000000000 floats"},
           {{"\xff\xfe"}, "command: unknown name"},
       }) {
    expect_refused(mistake);
  }
}

// Nothing is started, and no packet leaves this machine: 192.0.2.1 is nobody's address.
TEST(BadInput, AnOpenMasterWithoutAToken) {
  if (!std::ranges::any_of(transport_backends(), [](const TransportBackend& backend) {
        return backend.name == "gloo";
      })) {
    GTEST_SKIP() << "gloo is not in this build";
  }
  const test::Words join = {"bench", "allreduce",    "--numel", "10",       "--rank",
                            "1",     "--world-size", "2",       "--master", "192.0.2.1:29500"};
  expect_refused({join, "openssl rand -hex 32"}, {"THINWIRE_TOKEN="});
  expect_refused({join, "THINWIRE_TOKEN: a token of 5 characters"}, {"THINWIRE_TOKEN=short"});
}

TEST(BadInput, OutputThatCannotBeWritten) {
  test::ChildProcess run({"bash", "-c", fmt::format("{} list strategies >/dev/full", THINWIRE)});
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 1) << run.describe();
  EXPECT_TRUE(test::has(run.err(), "the output cannot be written"));
}

TEST(BadInput, ADirectoryThatCannotBeWritten) {
#ifdef THINWIRE_TRAINER
  expect_refused({{"train", "--out", "/dev/full"}, "--out /dev/full: a directory to write to"});
#else
  GTEST_SKIP() << "train is not in this build";
#endif
}

}  // namespace
}  // namespace thinwire
