// The event stream of a run: one JSON object per line, in the order in which things happened.
// docs/events.md lists the events and their fields.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "thinwire/error.h"

namespace thinwire::observe {

using Json = nlohmann::ordered_json;

inline constexpr int kEventVersion = 1;

// Returns the fields of an error as an object. Facts that are unknown are null.
Json to_json(const ErrorFields& fields);

// Appends events to a file that several processes of one machine may share. Each event is one write
// of a whole line, so that lines of different ranks never mix and a reader always finds whole
// objects. Any thread may write.
class EventWriter {
 public:
  // fresh: what the file held before is removed.
  enum class Open { fresh, append };

  // Throws ConfigError if the file cannot be written.
  EventWriter(const std::filesystem::path& file, Open how);

  // Adds {"event": name, "at": seconds since 1970} and the fields. The line is in the file when
  // this returns. Throws Error if it cannot be written, for example because the disk is full.
  void write(std::string_view name, const Json& fields);

 private:
  void remove_partial_line(ssize_t written) const;

  std::filesystem::path file_;
  base::UniqueFd descriptor_;
};

// Reads a stream while it is being written.
class EventReader {
 public:
  explicit EventReader(std::filesystem::path file) : file_(std::move(file)) {}

  // Returns the events that were added since the last call; none if there is no file yet. The
  // beginning of a line that is not complete is left for the next call. Lines that are no objects
  // with a name of an event are passed over.
  std::vector<Json> read_new();

 private:
  std::filesystem::path file_;
  std::uint64_t offset_ = 0;
};

}  // namespace thinwire::observe
