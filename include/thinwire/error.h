// The errors of the library. Every error has its facts as fields in addition to its text, so that
// programs need not parse the text. The text has the form "object: problem (value); hint".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "thinwire/export.h"
#include "thinwire/types.h"

namespace thinwire {

// Which kind of failure an error reports.
enum class ErrorKind : std::uint8_t {
  failure,   // the run itself failed: it diverged, replicas differ, a file cannot be written
  config,    // the caller asked for something impossible (ConfigError)
  wire,      // a message or a file cannot be read (WireError)
  join,      // the group never came together (TransportError, as are the next two)
  deadline,  // a peer was silent for longer than the timeout
  lost,      // a peer died or left
};
// Returns the enumerator's name, for example "deadline". Never throws.
TW_EXPORT std::string_view to_string(ErrorKind kind) noexcept;

// What the caller can change so that the failure does not happen again. A program turns it into a
// hint that names its own options; the library knows no command line. Ranks send these values to
// each other (docs/wire-format.md), so new ones are appended.
enum class Remedy : std::uint8_t {
  none,
  raise_timeout,        // the peer may be alive but slow: allow a longer silence
  raise_join_timeout,   // ranks may still be starting: wait longer for the group
  choose_master,        // another address or port of the rendezvous server
  choose_interface,     // another network interface for this rank
  share_token,          // the same job token for every rank
  choose_transport,     // another transport than this one
  let_launcher_number,  // leave out rank and number of workers: the launcher decides them
  drop_network,         // do not imitate a network: the workers run on several machines
  match_options,        // the same version, model and options on every rank
  free_disk_space,      // free disk space, or choose another directory, for the files of the run
  tolerate_nonfinite,   // skip steps whose gradients are not finite
};
inline constexpr Remedy kLastRemedy = Remedy::tolerate_nonfinite;
// Returns the enumerator's name, for example "raise_timeout". Never throws.
TW_EXPORT std::string_view to_string(Remedy remedy) noexcept;

// The facts of a failure. A fact that is unknown, or has no meaning for this failure, is -1, empty
// or nullopt.
struct ErrorFields {
  ErrorKind kind = ErrorKind::failure;
  int rank = kNoRank;  // the rank that reports the failure
  int peer = kNoRank;  // the rank to blame; it may be `rank` itself
  std::string host;    // the host of the rank to blame
  // One of: "send", "receive" and "lane" of a transport; "join" and "leave" of a group; "begin",
  // "exchange" and "check" of a session; "save" of a file.
  std::string operation;
  std::optional<std::uint64_t> bytes_done;   // of the operation's message
  std::optional<std::uint64_t> bytes_total;  // of the operation's message, or of the room for it
  std::optional<Seconds> seconds;            // how long the operation had been waiting
  Remedy remedy = Remedy::none;
};

// The base of all errors that thinwire throws for causes outside the program. Copying never throws.
class TW_EXPORT Error : public std::runtime_error {
 public:
  // `fields.kind` is kept as given; the derived classes set it by themselves. Throws
  // std::bad_alloc without memory, as all constructors of errors do.
  explicit Error(const std::string& text, ErrorFields fields = {});

  // Returns the facts, which are valid as long as this error or a copy of it exists. Any thread may
  // call it.
  const ErrorFields& fields() const noexcept { return *fields_; }
  // Returns fields().kind. Any thread may call it.
  ErrorKind kind() const noexcept { return fields_->kind; }

 protected:
  // Sets fields.kind to `kind`.
  Error(ErrorKind kind, const std::string& text, ErrorFields fields);

 private:
  // The copies of an error share it, because the copy of an exception must not throw.
  std::shared_ptr<const ErrorFields> fields_;
};

// The user asked for something impossible. It is thrown before step 0; the text names the option,
// its value and what is allowed instead.
class TW_EXPORT ConfigError : public Error {
 public:
  // Sets fields.kind to ErrorKind::config.
  explicit ConfigError(const std::string& text, ErrorFields fields = {});
};

// A message or a file is damaged, of another version, or of the wrong size.
class TW_EXPORT WireError : public Error {
 public:
  // Sets fields.kind to ErrorKind::wire.
  explicit WireError(const std::string& text, ErrorFields fields = {});
};

// A peer or the network failed. The transport is unusable afterwards; the process may join a group
// again. The text names this rank, the peer and its host, the operation, the bytes done and the
// seconds waited; so do the fields.
class TW_EXPORT TransportError : public Error {
 public:
  using Kind = ErrorKind;  // join, deadline or lost

  // Sets fields.kind to `kind`; the caller fills in the other facts that it knows.
  TransportError(Kind kind, const std::string& text, ErrorFields fields);
  // For callers that know no more than the rank to blame, or kNoRank.
  TransportError(Kind kind, int peer, const std::string& text);

  // Returns the rank to blame; kNoRank if no single one is known. Any thread may call it.
  int peer() const noexcept { return fields().peer; }
};

}  // namespace thinwire
