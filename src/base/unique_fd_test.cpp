#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace thinwire::base {
namespace {

UniqueFd open_null() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }
bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWhatItOwns) {
  int number = -1;
  {
    const UniqueFd fd = open_null();
    ASSERT_TRUE(fd);
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, MovesOwnership) {
  UniqueFd first = open_null(), second = open_null();
  const int kept = first.get(), replaced = second.get();
  second = std::move(first);
  EXPECT_EQ(second.get(), kept);
  EXPECT_FALSE(is_open(replaced));
  const UniqueFd third = std::move(second);
  EXPECT_TRUE(is_open(kept));
}

TEST(UniqueFd, ReleaseLeavesTheDescriptorOpen) {
  UniqueFd fd = open_null();
  const UniqueFd owner(fd.release());
  EXPECT_FALSE(fd);
  EXPECT_TRUE(is_open(owner.get()));
}

TEST(UniqueFd, KeepsErrnoAndTreatsAFailedCallAsEmpty) {
  UniqueFd fd = open_null();
  errno = ENOSPC;
  fd.reset(-5);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(fd.get(), -1);
}

}  // namespace
}  // namespace thinwire::base
