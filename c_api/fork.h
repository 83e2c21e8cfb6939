// What a forked child does with the connections of its parent's groups.
#pragma once

#include "thinwire/launch.h"

namespace thinwire::c_api {

// Registers the address of rank 0 at which a group joins, as long as this object exists. Only
// close_group_connections() uses it, so nothing is lost if there are more groups than it has room
// for. Made and destroyed by any thread.
class MasterAddress {
 public:
  // Resolves the host, which may take a while. Made before the group takes the socket
  // options.master_socket. A group of one rank has no connections and is not registered.
  explicit MasterAddress(const JoinOptions& options) noexcept;
  ~MasterAddress();
  MasterAddress(const MasterAddress&) = delete;
  MasterAddress& operator=(const MasterAddress&) = delete;

 private:
  int slot_ = -1;  // -1: there was no room
};

// Returns whether this process has joined a group, not only a process that it was forked from.
bool owns_groups() noexcept;

// Closes this process's copies of the connections between the ranks of the parent's groups and
// rank 0. For a forked child: it locks nothing and calls only what is safe in a signal handler.
void close_group_connections() noexcept;

}  // namespace thinwire::c_api
