// What `compare` shows of a run: from its events, never from what it writes to stderr.
#include "report/compare_progress.h"

#include <gtest/gtest.h>

#include <sstream>

#include "testing/expect.h"
#include "testing/scratch_directory.h"
#include "testing/split_words.h"

namespace thinwire::report {
namespace {

using observe::Json;

class Watching : public testing::Test {
 protected:
  Watching() {
    for (const char* strategy : {"dense", "topk", "lasgd"}) {
      comparison_.runs.emplace_back().strategy = strategy;
    }
    comparison_.runs[2].problem = "lost in thought";
  }

  std::string lines_of(bool live) {
    std::ostringstream out, err;
    launch::Io io{out, err, [](std::string_view) { return std::nullopt; }, live};
    observe::EventWriter events(file_, observe::EventWriter::Open::fresh);
    {
      CompareProgress progress(io, comparison_);
      progress.begin(2);
      RunWatcher watcher(progress, file_);
      events.write("step", Json{{"epoch", 0.1}, {"position", 1}, {"steps", 9}});
      events.write("step", Json{{"epoch", 0.2}, {"position", 2}, {"steps", 9}});
      watcher.stream() << launch::kEraseLine << "live" << launch::kEraseLine << "any text\n";
      events.write("warning", Json{{"rank", 1}, {"text", "too thin"}});
      events.write("warning", Json{{"rank", nullptr}, {"text", "too short"}});
      events.write("note", Json{{"rank", 0}, {"text", "resuming after step 1"}});
      events.write("something-new", Json{{"rank", 0}});
      watcher.stream() << "epoch 7 thinwire: warning: this is only text\n" << std::flush;
      watcher.read_events();
      warnings_ = watcher.warnings();
      last_lines_ = {watcher.last_lines().begin(), watcher.last_lines().end()};
      progress.end();
    }
    EXPECT_EQ(out.str(), "");
    return err.str();
  }

  std::string problem_after(const std::vector<Json>& errors, std::string_view err) {
    std::ostringstream out;
    launch::Io io{out, out, [](std::string_view) { return std::nullopt; }};
    observe::EventWriter events(file_, observe::EventWriter::Open::fresh);
    CompareProgress progress(io, comparison_);
    RunWatcher watcher(progress, file_);
    for (const Json& error : errors) events.write("error", error);
    watcher.stream() << err;
    watcher.read_events();
    return watcher.problem(1);
  }

  const test::ScratchDirectory scratch_;
  const std::filesystem::path file_ = scratch_.path() / "events.jsonl";
  Comparison comparison_;
  test::Words warnings_, last_lines_;
};

TEST_F(Watching, PlainLinesElsewhere) {
  const std::string text = lines_of(false);
  EXPECT_TRUE(test::has(text, "[3/3] lasgd\nepoch 0.20  step 2/9  loss nan"));
  EXPECT_TRUE(test::has(text,
                        "[rank 1] thinwire: warning: too thin\nthinwire: warning: too short\n"
                        "thinwire: resuming after step 1\nlasgd failed: lost in thought\n"));
  EXPECT_FALSE(test::has(text, "only text")) << "stderr is not shown while a run goes well";
  EXPECT_EQ(warnings_, (test::Words{"[rank 1] too thin", "too short"}));
  EXPECT_EQ(last_lines_, (test::Words{"any text", "epoch 7 thinwire: warning: this is only text"}));
}

TEST_F(Watching, ATableOnATerminal) {
  const std::string text = lines_of(true);
  EXPECT_TRUE(test::has(text, "epoch 0.20  step 2/9"));
  EXPECT_TRUE(test::has(text, "thinwire: warning: too short\n"));
  EXPECT_TRUE(text.ends_with("\033[4A\033[J")) << "the table is gone at the end";
}

TEST_F(Watching, TheProblemIsThatOfTheRankThatFailedItself) {
  const Json lost{{"kind", "lost"}, {"rank", 0}, {"peer", 1}, {"text", "rank 0: lost rank 1"}};
  const Json own{{"kind", "failure"}, {"rank", 1}, {"text", "rank 1: it diverged"}};
  EXPECT_EQ(problem_after({lost, own}, "thinwire: rank 1 ended\n"), "rank 1: it diverged");
  const Json exit{
      {"event", "exit"}, {"rank", 1}, {"signal", "SIGKILL"}, {"text", "rank 1 (h): killed"}};
  EXPECT_EQ(problem_after({lost, exit}, "noise\n"), "rank 1 (h): killed");
  EXPECT_EQ(problem_after({own, exit}, "noise\n"), "rank 1: it diverged");
  EXPECT_EQ(problem_after({}, "noise\nthinwire: --lr: bad\n"), "--lr: bad");
  EXPECT_EQ(problem_after({}, ""), "it ended with exit code 1");
}

}  // namespace
}  // namespace thinwire::report
