// Hints: the flags that the library does not know, added by the command line.
#include "cli/hint.h"

#include <gtest/gtest.h>

#include "cli/test_call.h"
#include "testing/expect.h"

namespace thinwire::cli {
namespace {

ErrorFields with(Remedy remedy, int peer = -1) {
  ErrorFields fields;
  fields.remedy = remedy;
  fields.peer = peer;
  return fields;
}

TEST(Hint, NamesAFlagWhereOneHelps) {
  EXPECT_EQ(hint(with(Remedy::none)), "");
  EXPECT_EQ(hint(with(Remedy::match_options)), "") << "the message itself says so";
  for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(kLastRemedy); ++i) {
    const auto remedy = static_cast<Remedy>(i);
    EXPECT_NE(to_string(remedy), "unknown");
    if (remedy == Remedy::none || remedy == Remedy::match_options) continue;
    EXPECT_TRUE(test::has(hint(with(remedy)), "--")) << to_string(remedy);
  }
}

TEST(Hint, FollowsTheMessage) {
  const TransportError late(ErrorKind::deadline, "rank 1 (beta): no progress for 60 s",
                            with(Remedy::raise_timeout, 2));
  EXPECT_EQ(with_hint(late),
            "rank 1 (beta): no progress for 60 s; raise --timeout if rank 2 is alive but slow");
  EXPECT_EQ(with_hint(Error("replicas: they differ")), "replicas: they differ");
}

TEST(Hint, IsPrintedWithTheError) {
  const Outcome outcome = call({"bench", "allreduce", "--numel", "10", "--transport", "gloo",
                                "--rank", "1", "--world-size", "2", "--master", "0.0.0.0:1"});
  if (test::has(outcome.err, "not in this build")) GTEST_SKIP() << "gloo is not in this build";
  EXPECT_EQ(outcome.code, launch::kBadUsage);
  EXPECT_TRUE(test::has(outcome.err, "all networks of a machine"));
  EXPECT_TRUE(test::has(outcome.err, "; set it by --master HOST:PORT"));
}

}  // namespace
}  // namespace thinwire::cli
