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

// Returns the rank that the launcher's line blames, if it names rank, host and operation. It quotes
// the error of a worker.
std::optional<int> blamed_by(const std::string& line, const std::string& host) {
  static const std::regex kForms[] = {
      std::regex(R"(lost rank (\d+) \(([^)]+)\) while (?:receiving|sending|waiting))"),
      std::regex(
          R"(no progress for [^:]* while (?:receiving from|sending to) rank (\d+) \(([^)]+))"),
      std::regex(R"(rank (\d+) \(([^)]+)\): given up by its peers while)"),
      std::regex(R"(rank (\d+) \(([^)]+)\):? cannot write its checkpoint)"),
  };
  for (const std::regex& form : kForms) {
    std::smatch match;
    if (std::regex_search(line, match, form) && match[2] == host) return std::stoi(match[1]);
  }
  // Rank 0 alone writes the log and the summary.
  if (line.find("rank 0: cannot write ") != std::string::npos) return 0;
  return std::nullopt;
}

bool blames_one_of(const std::string& line, const ExpectedErrors& expected) {
  const auto culprit = blamed_by(line, expected.host);
  return culprit && expected.blamed.contains(*culprit);
}

bool blames_one_of(const ErrorFields& error, const ExpectedErrors& expected) {
  return expected.blamed.contains(error.peer) && error.host == expected.host &&
         !error.operation.empty();
}

// Returns the fields that this program checks.
ErrorFields fields_of(const observe::Json& event) {
  const auto rank = [&](const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_number_integer() ? found->get<int>() : -1;
  };
  const auto text = [&](const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  ErrorFields fields;
  fields.rank = rank("rank");
  fields.peer = rank("peer");
  fields.host = text("host");
  fields.operation = text("operation");
  if (text("kind") == to_string(ErrorKind::deadline)) fields.kind = ErrorKind::deadline;
  if (text("remedy") == to_string(Remedy::free_disk_space)) fields.remedy = Remedy::free_disk_space;
  return fields;
}

// Returns which rank noticed a fault by its deadline although it had to notice the fault itself.
std::string by_deadline(const std::vector<ErrorFields>& errors, const ExpectedErrors& expected) {
  for (const ErrorFields& error : errors) {
    if (!expected.without_deadline || error.kind != ErrorKind::deadline) continue;
    return fmt::format("rank {} noticed it by its deadline only", error.rank);
  }
  return "";
}

// Before a group is complete no rank can be lost. A rank that gave up is not to blame, nor is a
// rank whose error is quoted.
bool launcher_names_while_joining(const std::string& last, const ExpectedErrors& expected) {
  static const std::regex kSpeaker(R"(rank \d+ gave up|said: rank \d+ \([^)]*\))");
  const std::string accused = std::regex_replace(last, kSpeaker, "");
  return last.find(expected.host) != std::string::npos &&
         std::ranges::any_of(expected.blamed, [&](int rank) {
           const std::regex named(fmt::format(R"(rank (?:\d+, )*{}\b)", rank));
           return std::regex_search(accused, named);
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

std::set<int> ranks_without_room(const std::vector<ErrorFields>& errors) {
  std::set<int> ranks;
  for (const ErrorFields& error : errors) {
    const bool own = error.peer == error.rank && error.operation == "save";
    if (own && error.remedy == Remedy::free_disk_space) ranks.insert(error.rank);
  }
  return ranks;
}

std::string not_named(const std::vector<ErrorFields>& errors, std::string_view err,
                      const ExpectedErrors& expected, int exit_code) {
  const std::vector<std::string> lines = lines_of(err);
  if (lines.empty()) return "there is no output";
  const std::string& last = lines.back();  // the launcher's
  if (std::string late = by_deadline(errors, expected); !late.empty()) return late;
  for (const int rank : expected.survivors) {
    const bool named = std::ranges::any_of(errors, [&](const ErrorFields& error) {
      return error.rank == rank && blames_one_of(error, expected);
    });
    if (!named) {
      return fmt::format("rank {} does not name rank {}", rank, fmt::join(expected.blamed, " or "));
    }
  }
  const bool launcher =
      last.find(expected.host) != std::string::npos && blames_one_of(last, expected);
  if (!launcher && !(expected.joining && launcher_names_while_joining(last, expected))) {
    return fmt::format("the launcher does not name rank {}, its host and the operation",
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
