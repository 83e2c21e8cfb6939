// What users type by mistake: refused before anything starts, by a message that names the flag and
// what is allowed.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/test_call.h"
#include "testing/expect.h"
#include "testing/scratch_directory.h"
#include "testing/split_words.h"

namespace thinwire::cli {
namespace {

using test::operator+;

namespace fs = std::filesystem;

struct Mistake {
  test::Words words;  // of the command line
  std::string says;   // among the errors
};

void expect_refused(const Mistake& mistake) {
  const Outcome outcome = call(mistake.words);
  SCOPED_TRACE(testing::PrintToString(mistake.words) + outcome.err);
  EXPECT_EQ(outcome.code, launch::kBadUsage);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(test::has(outcome.err, mistake.says));
}

TEST(BadInput, Bench) {
  for (const Mistake& mistake : std::initializer_list<Mistake>{
           {{"bench", "allreduce", "--workers", "-1"}, "--workers -1: at least 1"},
           {{"bench", "allreduce", "--workers", "0"}, "--workers 0: at least 1"},
           {{"bench", "allreduce", "--workers", "99999"}, "--workers 99999: at most 1024"},
           {{"bench", "allreduce", "--transport", "threads", "--workers", "1025"}, "at most 1024"},
           {{"bench", "allreduce", "--workers", "99999999999"}, "--workers"},
           {{"bench", "allreduce", "--workers", "two"}, "--workers"},
           {{"bench", "allreduce", "--numel", "1e30"}, "'1e30' is not a number of floats"},
           {{"bench", "allreduce", "--numel", "-1"}, "'-1' is not a number of floats"},
           {{"bench", "allreduce", "--numel", "0"}, "'0' is not a number of floats"},
           {{"bench", "allreduce", "--numel", "1000000M"}, "--numel: 1000000000000 floats"},
           {{"bench", "allreduce", "--reps", "0"}, "--reps 0: at least 1"},
           {{"bench", "allreduce", "--reps", "99999999999"}, "--reps"},
           {{"bench", "allreduce", "--seed", "-1"}, "'-1' is not a whole number"},
           {{"bench", "allreduce", "--timeout", "nan"},
            "'nan' is not a number of 0.001 ... 1000000"},
           {{"bench", "allreduce", "--timeout", "0"}, "--timeout"},
           {{"bench", "allreduce", "--join-timeout", "inf"}, "--join-timeout"},
           {{"bench", "allreduce", "--network", "nan"}, "network 'nan'"},
           {{"bench", "allreduce", "--network", "1gbit,-1ms"}, "network '1gbit,-1ms'"},
           {{"bench", "allreduce", "--strategy", "topk:density=nan"},
            "density is not allowed (nan)"},
           {{"bench", "allreduce", "--rank", "-1", "--world-size", "2"}, "--rank -1"},
           {{"bench", "allreduce", "--rank", "0", "--world-size", "0"}, "--world-size 0"},
           {{"bench", "allreduce", "--token-file", "/nonexistent"}, "--token-file /nonexistent"},
           {{"bench", "select", "--density", "nan"}, "--density nan"},
           {{"bench", "select", "--numel", "5000M"}, "at most 2^32"},
           {{"list", "nothing"}, "list: unknown name (nothing)"},
           {{"list", "\u00fc\x1b[2J"}, "list: unknown name"},
           {{"\xff\xfe"}, "command: unknown name"},
           {{""}, "command: unknown name"},
       }) {
    expect_refused(mistake);
  }
}

// These cases use files whose names need escaping or quoting.
class BadTraining : public testing::Test {
 protected:
  BadTraining() {
    fs::create_directories(directory_);
    std::ofstream(file_) << "too short";
  }

  void SetUp() override {
    if (call({"train", "--help"}).code != launch::kOk) GTEST_SKIP() << "train is not in this build";
  }

  static void expect_all_refused(std::initializer_list<Mistake> mistakes) {
    for (const Mistake& mistake : mistakes) {
      const test::Words train = {"train", "--transport", "threads", "--workers", "2"};
      expect_refused({train + mistake.words, mistake.says});
    }
  }

  const test::ScratchDirectory scratch_;
  const fs::path directory_ = scratch_.path() / "bad input \u00fc";
  const fs::path file_ = directory_ / "a file";
};

TEST_F(BadTraining, Numbers) {
  expect_all_refused({
      {{"--batch", "0"}, "--batch: '0' is not a whole number of 1 ... 16777216"},
      {{"--batch", "-5"}, "--batch: '-5'"},
      {{"--batch", "1000000000000000000"}, "--batch"},
      {{"--batch", "1e18"}, "--batch"},
      {{"--lr", "nan"}, "--lr: 'nan' is not a number of 0 ... 1000000"},
      {{"--lr", "inf"}, "--lr"},
      {{"--lr", "0"}, "--lr 0: it must be more than 0"},
      {{"--lr", "-0.1"}, "--lr"},
      {{"--momentum", "1"}, "--momentum"},
      {{"--momentum", "nan"}, "--momentum"},
      {{"--weight-decay", "inf"}, "--weight-decay"},
      {{"--epochs", "nan"}, "--epochs"},
      {{"--epochs", "1e300"}, "--epochs"},
      {{"--steps", "-1"}, "--steps"},
      {{"--samples", "18446744073709551616"}, "--samples"},
      {{"--seed", "-1"}, "--seed"},
      {{"--keep", "-1"}, "--keep"},
      {{"--step-time", "nan"}, "--step-time 'nan': a time of more than 0 is needed"},
      {{"--step-time", "5min"}, "--step-time '5min'"},
      {{"--slow", "5:2"}, "--slow 5:2"},
      {{"--slow", "0:nan"}, "--slow 0:nan"},
      {{"--lr-schedule", "cosine:warmup=nan"}, "warmup is not allowed (nan)"},
  });
}

TEST_F(BadTraining, Comparisons) {
  const std::string file = file_;
  for (const auto& [strategies, flag, value, says] :
       std::initializer_list<std::array<std::string, 4>>{
           {"gtopk; gtopk", "--workers", "2", "'gtopk' is there twice"},
           {"gtopc", "--workers", "2", "did you mean gtopk"},
           {" ; ", "--workers", "2", "at least one"},
           {"gtopk", "--workers", "0", "--workers 0: at least 1"},
           {"gtopk; ps:servers=8", "--workers", "4",
            "--strategies ps:servers=8: ps: there are more servers (8) than ranks (4)"},
           {"gtopk", "--data", "text:\xff", "reports are UTF-8"},
           {"gtopk", "--epochs", "1e30", "--epochs"},
           {"gtopk", "--model", "nonsense", "model: unknown name (nonsense)"},
           {"gtopk", "--data", "mnist:" + file, "a file/train-images-idx3-ubyte'"},
           {"gtopk", "--out", file, "--out " + file + ": the directory cannot be made"},
       }) {
    expect_refused({{"compare", "--strategies", strategies, flag, value}, says});
  }
}

TEST_F(BadTraining, Files) {
  const std::string directory = directory_, file = file_;
  ASSERT_EQ(mkfifo((directory + "/pipe").c_str(), 0600), 0);
  expect_all_refused({
      {{"--data", "mnist:" + directory},
       "'" + directory + "/train-images-idx3-ubyte': it is missing"},
      {{"--data", "mnist:" + file}, "a file/train-images-idx3-ubyte'"},
      {{"--data", "cifar10:" + directory}, "data_batch_1.bin': it is missing"},
      {{"--data", "text:" + directory}, "is not a file"},
      {{"--data", "text:" + directory + "/pipe"}, "is not a file"},
      {{"--data", "text:/dev/zero"}, "is not a file"},
      {{"--data", "text:" + file}, "is too short"},
      {{"--data", "text:"}, "needs a file"},
      {{"--data", "nothing:x"}, "data: unknown name"},
      {{"--out", file}, "--out " + file + ": a directory to write to is needed"},
      {{"--out", "/dev/full"}, "--out /dev/full"},
      {{"--out", "/proc/none"}, "--out /proc/none"},
      {{"--resume"}, "--resume: --out DIR is needed"},
      {{"--resume", "--out", directory}, "there is no checkpoint of rank 0 in " + directory},
  });
}

// Permissions bind everybody but root: a test that runs as root is somebody else for a while.
class AsNobody {
 public:
  AsNobody() {
    if (geteuid() != 0) return;
    changed_ = setresuid(kNobody, kNobody, 0) == 0;
    EXPECT_TRUE(changed_);
  }
  ~AsNobody() {
    if (changed_ && setresuid(0, 0, 0) != 0) std::abort();
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;

  bool changed_ = false;
};

TEST_F(BadTraining, FilesThatMayNotBeRead) {
  const fs::path closed = directory_ / "closed \u00fc", secret = directory_ / "secret";
  // The directories of the test itself can be reached, also by another user.
  fs::permissions(directory_.parent_path(), fs::perms(0755));
  fs::create_directories(closed / "inner");
  std::ofstream(secret) << std::string(100'000, 'x');
  fs::create_symlink(directory_ / "loop", directory_ / "loop");
  fs::permissions(closed, fs::perms::none);
  fs::permissions(secret, fs::perms::none);
  const std::string denied = "Permission denied";
  {
    const AsNobody nobody;
    expect_all_refused({
        {{"--data", "mnist:" + closed.string()},
         "'" + closed.string() + "/train-images-idx3-ubyte': it cannot be reached (" + denied},
        {{"--data", "cifar10:" + closed.string()},
         "data_batch_1.bin': it cannot be reached (" + denied},
        {{"--data", "text:" + secret.string()}, "secret': it cannot be opened (" + denied},
        {{"--data", "text:" + directory_.string() + "/loop"},
         "loop': it cannot be reached (Too many"},
        {{"--out", closed}, "--out " + closed.string() + ": a directory to write to is needed"},
        {{"--out", closed / "inner"}, "--out " + (closed / "inner").string()},
        {{"--out", directory_ / "loop"}, "--out " + directory_.string() + "/loop"},
        {{"--resume", "--out", closed}, "--out " + closed.string()},
    });
    for (const fs::path& out : {closed, closed / "inner", directory_ / "loop"}) {
      expect_refused({{"compare", "--strategies", "gtopk", "--out", out},
                      "--out " + out.string() + ": the directory cannot be "});
    }
    expect_refused({{"bench", "allreduce", "--token-file", secret},
                    "--token-file " + secret.string() + ": " + denied});
  }
  fs::permissions(closed, fs::perms::owner_all);
}

}  // namespace
}  // namespace thinwire::cli
