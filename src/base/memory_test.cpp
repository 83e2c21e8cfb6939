#include "base/memory.h"

#include <gtest/gtest.h>

#include "testing/scratch_directory.h"

namespace thinwire::base {
namespace {

namespace fs = std::filesystem;

TEST(Memory, OfThisMachineCanBeDetermined) {
  ASSERT_TRUE(available_memory().has_value());
  EXPECT_GT(*available_memory(), 1u << 20);
}

// A hierarchy of control groups in the layout of the kernel: /job/step.
class GroupMemory : public testing::Test {
 protected:
  GroupMemory() { fs::create_directories(root_.path() / "job" / "step"); }

  void limit(const fs::path& group, const std::string& most, const std::string& used,
             const std::string& inactive_file = "0") {
    root_.write(group / "memory.max", most + "\n");
    root_.write(group / "memory.current", used + "\n");
    root_.write(group / "memory.stat",
                "anon 7\nfile 9\nactive_file 9\ninactive_file " + inactive_file + "\nslab 1\n");
  }
  std::optional<std::uint64_t> left(std::string_view group = "job/step") {
    return memory_of_group(root_.path(), group);
  }

  test::ScratchDirectory root_;
};

TEST_F(GroupMemory, NoLimitGivesNoValue) {
  EXPECT_EQ(left(), std::nullopt);
  limit("job", "max", "5000");
  EXPECT_EQ(left(), std::nullopt);
  EXPECT_EQ(left("absent/group"), std::nullopt);
}

TEST_F(GroupMemory, TheTightestLimitCounts) {
  limit("job", "5000", "1000");
  limit("job/step", "max", "1000");
  EXPECT_EQ(left(), 4000u);
  limit("job/step", "3000", "500");
  EXPECT_EQ(left(), 2500u);
  limit("", "1000", "1000");  // in a container the group of the process is the root
  EXPECT_EQ(left(), 0u);
}

TEST_F(GroupMemory, InactiveFileCacheCountsAsLeft) {
  limit("job", "5000", "4900", "4000");
  EXPECT_EQ(left(), 4100u);
  limit("job", "5000", "6000", "100");  // a limit that was lowered later
  EXPECT_EQ(left(), 0u);
}

}  // namespace
}  // namespace thinwire::base
