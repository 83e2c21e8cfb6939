// How a run fails; Error itself: it diverged, replicas differ, a file cannot be written.
#pragma once

#include <stdexcept>
#include <string>

#include "thinwire/types.h"

namespace thinwire {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The user asked for something impossible. Thrown before step 0; the text names the key, the value
// and what is allowed instead.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// Foreign bytes: a message or file that is damaged, of another version, or of the wrong size.
class WireError : public Error {
 public:
  using Error::Error;
};

// A peer or the network failed. The transport is unusable afterwards; the process may join a group
// again. The text names this rank, the peer and its host, the operation, the bytes done, the
// seconds waited and what to do.
class TransportError : public Error {
 public:
  enum class Kind {
    join,      // the group never came together
    deadline,  // a peer was silent for longer than the timeout
    lost,      // a peer died or left
  };
  TransportError(Kind kind, int peer, const std::string& text)
      : Error(text), kind_(kind), peer_(peer) {}

  Kind kind() const noexcept { return kind_; }
  int peer() const noexcept { return peer_; }  // the rank to blame; -1 if no single one is known

 private:
  Kind kind_;
  int peer_;
};

}  // namespace thinwire
