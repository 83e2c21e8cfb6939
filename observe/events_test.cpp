// The event stream: several writers write whole lines, a reader follows it, errors have fields.
#include "observe/events.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <thread>

#include "observe/progress_text.h"
#include "testing/expect.h"
#include "testing/scratch_directory.h"

namespace thinwire::observe {
namespace {

using Open = EventWriter::Open;

// Limits the size of files that this process writes, as long as it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lower{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*signal_)(int);
  rlimit before_{};
};

class Events : public testing::Test {
 protected:
  std::string contents() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  const test::ScratchDirectory scratch_;
  const std::filesystem::path file_ = scratch_.path() / "events.jsonl";
};

TEST_F(Events, EachIsALineWithItsNameFirst) {
  EventWriter writer(file_, Open::fresh);
  writer.write("step", Json{{"step", 3}, {"loss", std::nan("")}, {"text", "two\nlines \xff"}});
  const std::string line = contents();
  EXPECT_EQ(line.find(R"({"event":"step","at":)"), 0u) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "a line break inside a text is escaped";
  const Json event = Json::parse(line);
  EXPECT_GT(event["at"], 1.7e9);
  EXPECT_EQ(event["step"], 3);
  EXPECT_TRUE(event["loss"].is_null());
}

TEST_F(Events, AreFreshOrAppended) {
  EventWriter(file_, Open::fresh).write("start", Json::object());
  EventWriter(file_, Open::append).write("error", Json::object());
  EXPECT_EQ(EventReader(file_).read_new().size(), 2u);
  EventWriter(file_, Open::fresh).write("start", Json::object());
  EXPECT_EQ(EventReader(file_).read_new().size(), 1u);
}

TEST_F(Events, AFileThatCannotBeWrittenIsRefused) {
  const auto error =
      test::must_throw<ConfigError>([&] { EventWriter(scratch_.path() / "no/file", Open::fresh); });
  EXPECT_TRUE(test::has(error.what(), "no/file: it cannot be written (No such file"));
  if (!std::filesystem::exists("/dev/full")) return;
  EventWriter full("/dev/full", Open::append);
  const auto no_room = test::must_throw<Error>([&] { full.write("step", Json::object()); });
  EXPECT_EQ(to_string(no_room.fields().remedy), "free_disk_space");
}

// Several writers, as with several ranks, and a reader that reads at any moment.
TEST_F(Events, AreWholeWhileOthersWrite) {
  constexpr int kWriters = 4, kEvents = 500;
  EventWriter(file_, Open::fresh).write("start", Json::object());
  std::vector<std::jthread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&, i] {
      EventWriter writer(file_, Open::append);
      for (int k = 0; k < kEvents; ++k) {
        writer.write("step", Json{{"writer", i}, {"step", k}, {"text", std::string(300, 'x')}});
      }
    });
  }
  EventReader reader(file_);
  std::vector<int> next(kWriters, 0);
  int lines = 0;
  while (lines < 1 + kWriters * kEvents) {
    for (const Json& event : reader.read_new()) {
      ++lines;
      if (event["event"] != "step") continue;
      EXPECT_EQ(event["step"], next[event["writer"].get<std::size_t>()]++);
    }
  }
  std::istringstream all(contents());
  for (std::string line; std::getline(all, line);) ASSERT_TRUE(Json::accept(line)) << line;
}

TEST_F(Events, AReaderWaitsForTheRestOfALine) {
  EventReader reader(file_);
  EXPECT_TRUE(reader.read_new().empty()) << "there is no file yet";
  std::ofstream out(file_);
  out << R"({"event":"start"})" << '\n' << R"({"event":"st)" << std::flush;
  EXPECT_EQ(reader.read_new().size(), 1u);
  out << R"(ep"})" << '\n' << "no JSON\n[1]\n{\"event\":1}\n" << std::flush;
  const auto events = reader.read_new();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["event"], "step");
  EXPECT_TRUE(reader.read_new().empty());
}

// A limit on the size of files cuts a line off as a full disk does; the events after it are whole.
TEST_F(Events, ALineThatWasCutOffSpoilsNoOther) {
  EventWriter writer(file_, Open::fresh);
  writer.write("step", {{"step", 1}});
  {
    const FileSizeLimit limit(std::filesystem::file_size(file_) + 10);
    EXPECT_THROW(writer.write("step", {{"step", 2}}), Error);
  }
  writer.write("error", {{"text", "full"}});
  const std::vector<Json> events = EventReader(file_).read_new();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1]["event"], "error");
}

TEST(ErrorFieldsJson, HasAllFieldsAndNullForWhatIsUnknown) {
  ErrorFields fields;
  EXPECT_EQ(to_json(fields).dump(),
            R"({"kind":"failure","rank":null,"peer":null,"host":null,"operation":null,)"
            R"("bytes_done":null,"bytes_total":null,"seconds":null,"remedy":"none"})");
  fields = {ErrorKind::deadline, 0, 2, "node3", "send", 3, 8, Seconds(1.5), Remedy::raise_timeout};
  EXPECT_EQ(to_json(fields).dump(),
            R"({"kind":"deadline","rank":0,"peer":2,"host":"node3","operation":"send",)"
            R"("bytes_done":3,"bytes_total":8,"seconds":1.5,"remedy":"raise_timeout"})");
}

TEST(ProgressText, OfAStepAndOfATest) {
  EXPECT_EQ(step_text(Json{{"epoch", 0.5},
                           {"position", 20.4},
                           {"steps", 40},
                           {"loss", 1.25},
                           {"samples_per_second", 900.4},
                           {"bytes_total", 0},
                           {"seconds_left", nullptr}}),
            "epoch 0.50  step 20/40  loss 1.2500  900 samples/s  0 B sent");
  EXPECT_TRUE(test::has(step_text(Json{{"seconds_left", 90.0}}), " left"));
  EXPECT_TRUE(test::has(step_text(Json{{"loss", nullptr}}), "loss nan")) << "it has diverged";
  EXPECT_EQ(evaluated_text(Json{{"epoch", 1},
                                {"position", 40},
                                {"test_loss", 0.5},
                                {"test_accuracy", 0.875},
                                {"train_loss", 0.25}}),
            "epoch 1.00  step 40  train loss 0.2500  test loss 0.5000  test accuracy 87.50 %");
}

}  // namespace
}  // namespace thinwire::observe
