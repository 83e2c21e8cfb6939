// Where the ranks of a job over Gloo listen: only at the addresses they were given, and, once they
// work, nowhere but at the master's port.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "testing/child_process.h"
#include "testing/reserved_port.h"

namespace thinwire {
namespace {

namespace fs = std::filesystem;

constexpr Seconds kPatience{60};

// "127.0.0.1:29500" of every TCP socket of IPv4 at which the process listens; of IPv6 "ipv6".
std::set<std::string> listening(pid_t pid) {
  std::set<std::string> inodes, out;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
    std::error_code gone;
    const std::string link = fs::read_symlink(entry.path(), gone);
    if (link.starts_with("socket:[")) inodes.insert(link.substr(8, link.size() - 9));
  }
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream file(fmt::format("/proc/{}/net/{}", pid, table));
    std::string line;
    std::getline(file, line);  // the title
    while (std::getline(file, line)) {
      constexpr std::string_view kListen = "0A";
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
          timeout >> inode;
      if (state != kListen || !inodes.contains(inode)) continue;
      const auto address = static_cast<std::uint32_t>(std::stoul(local.substr(0, 8), nullptr, 16));
      out.insert(table == std::string_view("tcp6")
                     ? "ipv6"
                     : fmt::format("{}.{}.{}.{}:{}", address & 0xff, address >> 8 & 0xff,
                                   address >> 16 & 0xff, address >> 24,
                                   std::stoul(local.substr(9), nullptr, 16)));
    }
  }
  return out;
}

TEST(GlooListen, OnlyAtTheChosenAddressAndOnlyTheMasterWhileRanksWork) {
  // Not the usual address of the loopback, so that a socket which listens everywhere stands out.
  const test::ReservedPort master("127.0.0.5");
  const auto start = [&](int rank) {
    return std::make_unique<test::ChildProcess>(std::vector<std::string>{
        THINWIRE, "bench", "allreduce", "--rank", fmt::format("{}", rank), "--world-size", "2",
        "--master", master.endpoint(), "--numel", "100000", "--reps", "100000000"});
  };
  const auto zero = start(0), one = start(1);
  ASSERT_TRUE(zero->wait_for_output("100000 floats", kPatience)) << zero->describe();
  EXPECT_EQ(listening(zero->pid()), std::set<std::string>{master.endpoint()}) << zero->describe();
  EXPECT_EQ(listening(one->pid()), std::set<std::string>{}) << one->describe();
}

}  // namespace
}  // namespace thinwire
