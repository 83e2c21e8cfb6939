// The workers of a run as the system sees them, and what can be done to them from outside.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>

#include "testing/child_process.h"

namespace thinwire::faults {

// The process of each rank that has started.
using Ranks = std::map<int, pid_t>;
Ranks ranks_of(const test::ChildProcess& run);

// Ports on which these processes listen.
std::set<std::uint16_t> listening_ports(const Ranks& ranks);
// Those of them on which somebody still listens.
std::set<std::uint16_t> still_listening(const std::set<std::uint16_t>& ports);

// Files in /dev/shm that these processes share.
std::set<std::filesystem::path> shared_memory(const Ranks& ranks);

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
