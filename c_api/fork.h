// What a forked child does with the connections of its parent's groups.
#pragma once

#include <cstdint>

namespace thinwire::c_api {

// Registers the port of rank 0 at which a group joins, as long as this object exists. Only
// close_group_connections() uses it, so nothing is lost if there are more groups than it has room
// for. Made and destroyed by any thread.
class MasterPort {
 public:
  // `listens`: this process is rank 0.
  MasterPort(std::uint16_t port, bool listens) noexcept;
  ~MasterPort();
  MasterPort(const MasterPort&) = delete;
  MasterPort& operator=(const MasterPort&) = delete;

 private:
  int slot_ = -1;  // -1: there was no room
};

// Returns whether this process has joined a group, not only a process that it was forked from.
bool owns_groups() noexcept;

// Closes this process's copies of the connections between the ranks of the parent's groups and
// rank 0. For a forked child: it locks nothing and calls only what is safe in a signal handler.
void close_group_connections() noexcept;

}  // namespace thinwire::c_api
