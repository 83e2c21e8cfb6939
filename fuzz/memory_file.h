// A file that exists only in memory, for readers that take a path.
#pragma once

#include <filesystem>

#include "rendezvous/socket.h"
#include "thinwire/types.h"

namespace thinwire::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(Bytes contents);
  void resize(std::size_t bytes);  // zeros follow the contents
  // Returns a path that is valid in this process as long as this object exists.
  std::filesystem::path path() const;

 private:
  rendezvous::Socket file_;  // owns the descriptor
};

}  // namespace thinwire::fuzz
