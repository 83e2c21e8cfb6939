// The workers of a run as the system sees them, and what can be done to them from outside.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "testing/child_process.h"

namespace thinwire::faults {

// The process of each rank that has started.
using Ranks = std::map<int, pid_t>;
Ranks ranks_of(const test::ChildProcess& run);

// Tells when these very processes end. A number would not do: once a process has ended, the system
// may give its number to another one.
class RankProcesses {
 public:
  explicit RankProcesses(const Ranks& ranks);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int size() const noexcept { return static_cast<int>(handles_.size()); }
  int ended() const;  // how many of them have

 private:
  std::vector<int> handles_;
};

// What the processes of a run own that could outlive them, by the system's own numbers. Ports and
// file names are no evidence: a parallel test may take the same ones a moment later.
struct Belongings {
  std::map<std::uint64_t, std::uint16_t> listening;              // inode of a socket -> its port
  std::map<std::filesystem::path, std::uint64_t> shared_memory;  // file in /dev/shm -> its inode
};
Belongings belongings_of(const Ranks& ranks);
// Those of them that are still there.
Belongings still_there(const Belongings& before);

// Shuts down a connection between the victim and a worker (`choice` picks it), as if the network
// had cut it. Returns the ranks at its two ends.
std::set<int> close_connection(const Ranks& ranks, int victim, std::uint32_t choice);

// Takes all room on the disk of a directory but `room` bytes, until it is destroyed.
class Ballast {
 public:
  Ballast(const std::filesystem::path& directory, std::uint64_t room);
  ~Ballast();
  Ballast(const Ballast&) = delete;
  Ballast& operator=(const Ballast&) = delete;

  // Takes what has become free since: old checkpoints may just have been removed.
  void fill();

 private:
  std::filesystem::path file_;
  std::uint64_t room_;
  std::uint64_t taken_ = 0;
  int fd_;
};

// A small disk of our own at `directory`, seen by this thread and what it starts, gone with this
// object or with them.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path directory, std::uint64_t bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const noexcept { return mounted_; }  // if that is allowed here

 private:
  std::filesystem::path directory_;
  bool mounted_ = false;
};

}  // namespace thinwire::faults
