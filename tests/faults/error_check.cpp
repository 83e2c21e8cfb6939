#include "tests/faults/error_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <sstream>
#include <vector>

#include "observe/events.h"

namespace thinwire::faults {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool blames_one_of(const ErrorFields& error, const ExpectedErrors& expected) {
  return expected.blamed.contains(error.peer) && error.host == expected.host &&
         !error.operation.empty();
}

std::optional<int> number_in(const observe::Json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int>();
}

std::string text_in(const observe::Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Returns the fields that this program checks.
ErrorFields fields_of(const observe::Json& event) {
  ErrorFields fields;
  fields.rank = number_in(event, "rank").value_or(kNoRank);
  fields.peer = number_in(event, "peer").value_or(kNoRank);
  fields.host = text_in(event, "host");
  fields.operation = text_in(event, "operation");
  if (text_in(event, "kind") == to_string(ErrorKind::deadline)) fields.kind = ErrorKind::deadline;
  if (text_in(event, "remedy") == to_string(Remedy::free_disk_space))
    fields.remedy = Remedy::free_disk_space;
  return fields;
}

launch::RunFailure exit_of(const observe::Json& event) {
  launch::RunFailure failure;
  failure.rank = number_in(event, "rank").value_or(kNoRank);
  failure.host = text_in(event, "host");
  failure.signal = text_in(event, "signal");
  failure.code = number_in(event, "code");
  failure.stopped = event.value("stopped", std::vector<int>());
  return failure;
}

// Returns which rank noticed a fault by its deadline although it had to notice the fault itself.
std::string by_deadline(const std::vector<ErrorFields>& errors, const ExpectedErrors& expected) {
  for (const ErrorFields& error : errors) {
    if (!expected.without_deadline || error.kind != ErrorKind::deadline) continue;
    return fmt::format("rank {} noticed it by its deadline only", error.rank);
  }
  return "";
}

// Returns whether the launcher's event leads to one of the blamed ranks: it failed by itself, it
// was stopped, or the rank that ended first blames it in its own error. A rank that gave up waiting
// is not to blame by itself.
bool launcher_names(const launch::RunFailure& exit, const std::vector<ErrorFields>& errors,
                    const ExpectedErrors& expected) {
  if (exit.host != expected.host) return false;
  const bool by_itself = exit.code != launch::kPeerFailed;
  if (by_itself && expected.blamed.contains(exit.rank)) return true;
  const auto is_blamed = [&](int rank) { return expected.blamed.contains(rank); };
  if (std::ranges::any_of(exit.stopped, is_blamed)) return true;
  return std::ranges::any_of(errors, [&](const ErrorFields& error) {
    return error.rank == exit.rank && blames_one_of(error, expected);
  });
}

}  // namespace

std::vector<ErrorFields> errors_in(const std::filesystem::path& events) {
  std::vector<ErrorFields> out;
  for (const observe::Json& event : observe::EventReader(events).read_new()) {
    if (event["event"] == "error") out.push_back(fields_of(event));
  }
  return out;
}

std::optional<launch::RunFailure> exit_in(const std::filesystem::path& events) {
  for (const observe::Json& event : observe::EventReader(events).read_new()) {
    if (event["event"] == "exit") return exit_of(event);
  }
  return std::nullopt;
}

std::set<int> ranks_without_room(const std::vector<ErrorFields>& errors) {
  std::set<int> ranks;
  for (const ErrorFields& error : errors) {
    const bool own = error.peer == error.rank && error.operation == "save";
    if (own && error.remedy == Remedy::free_disk_space) ranks.insert(error.rank);
  }
  return ranks;
}

std::string not_named(const std::vector<ErrorFields>& errors,
                      const std::optional<launch::RunFailure>& exit, const ExpectedErrors& expected,
                      int exit_code) {
  if (!exit) return "the launcher wrote no exit event";
  if (std::string late = by_deadline(errors, expected); !late.empty()) return late;
  for (const int rank : expected.survivors) {
    const bool named = std::ranges::any_of(errors, [&](const ErrorFields& error) {
      return error.rank == rank && blames_one_of(error, expected);
    });
    if (!named) {
      return fmt::format("rank {} does not name rank {}", rank, fmt::join(expected.blamed, " or "));
    }
  }
  if (!launcher_names(*exit, errors, expected)) {
    return fmt::format("the launcher does not name rank {} and its host",
                       fmt::join(expected.blamed, " or "));
  }
  if (exit_code != 1) return fmt::format("the exit code is {} instead of 1", exit_code);
  return "";
}

std::string not_named_under_mpi(const std::vector<ErrorFields>& errors, std::string_view output,
                                const ExpectedErrors& expected, int exit_code) {
  static const std::regex kMpirun(
      R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal)");
  const auto lines = lines_of(output);
  const bool by_mpirun = std::ranges::any_of(lines, [&](const std::string& line) {
    std::smatch match;
    return std::regex_search(line, match, kMpirun) && match[2] == expected.host &&
           expected.blamed.contains(std::stoi(match[1]));
  });
  if (std::string late = by_deadline(errors, expected); !late.empty()) return late;
  // A rank that its peers gave up blames itself, which does not show that the fault of another rank
  // was named.
  const bool by_rank = std::ranges::any_of(errors, [&](const ErrorFields& error) {
    const bool given_up = error.peer == error.rank && error.operation != "save";
    return !given_up && blames_one_of(error, expected);
  });
  if (!by_mpirun && !by_rank) {
    return fmt::format("no error names rank {}, its host and the operation",
                       fmt::join(expected.blamed, " or "));
  }
  if (exit_code == 0) return "the exit code is 0";
  return "";
}

}  // namespace thinwire::faults
