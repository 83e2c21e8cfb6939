// Finds the processes of a run, and injects faults into them from outside.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "base/unique_fd.h"
#include "testing/child_process.h"

namespace thinwire::faults {

// The process of each rank that has started.
using Ranks = std::map<int, pid_t>;
Ranks ranks_of(const test::ChildProcess& run);

// Reports when these processes end. It uses pidfds, because the system may give the pid of a
// process that has ended to another one.
class RankProcesses {
 public:
  explicit RankProcesses(const Ranks& ranks);

  int size() const noexcept { return static_cast<int>(handles_.size()); }
  int ended() const;  // how many of them have ended

 private:
  std::vector<base::UniqueFd> handles_;
};

// The resources of a run's processes that could outlive them, identified by inodes. Ports and file
// names are not enough, because a parallel test may use the same ones a moment later.
struct Resources {
  std::map<std::uint64_t, std::uint16_t> listening;              // inode of a socket -> its port
  std::map<std::filesystem::path, std::uint64_t> shared_memory;  // file in /dev/shm -> its inode
};
Resources resources_of(const Ranks& ranks);
// Returns those that still exist.
Resources still_there(const Resources& before);

// Shuts down a connection between the victim and a worker (`choice` picks it), as if the network
// had cut it. Returns the ranks at its two ends.
std::set<int> close_connection(const Ranks& ranks, int victim, std::uint32_t choice);

// Fills the disk of a directory except for `room` bytes, until this object is destroyed.
class DiskFiller {
 public:
  DiskFiller(const std::filesystem::path& directory, std::uint64_t room);
  ~DiskFiller();
  DiskFiller(const DiskFiller&) = delete;
  DiskFiller& operator=(const DiskFiller&) = delete;

  // Fills space that has become free since, for example because old checkpoints were removed.
  void fill();

 private:
  std::filesystem::path file_;
  std::uint64_t room_;
  std::uint64_t taken_ = 0;
  base::UniqueFd fd_;
};

// A small file system (tmpfs) at `directory` in a mount namespace of its own: only this thread and
// the processes that it starts see it. It is unmounted when this object is destroyed or the last of
// them ends.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path directory, std::uint64_t bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const noexcept { return mounted_; }  // false if this process may not mount

 private:
  std::filesystem::path directory_;
  bool mounted_ = false;
};

}  // namespace thinwire::faults
