#include "tests/faults/witness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <sstream>
#include <vector>

namespace thinwire::faults {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The rank that a worker's error blames, if the line is one that names rank, host and operation.
std::optional<int> blamed_by(const std::string& line, const std::string& host) {
  static const std::regex kForms[] = {
      std::regex(R"(lost rank (\d+) \(([^)]+)\) while (?:receiving|sending|waiting))"),
      std::regex(
          R"(no progress for [^:]* while (?:receiving from|sending to) rank (\d+) \(([^)]+))"),
      std::regex(R"(rank (\d+) \(([^)]+)\): given up by its peers while)"),
      std::regex(R"(rank (\d+) \(([^)]+)\) cannot write its checkpoint)"),
  };
  for (const std::regex& form : kForms) {
    std::smatch match;
    if (std::regex_search(line, match, form) && match[2] == host) return std::stoi(match[1]);
  }
  // Rank 0 alone writes it, and speaks of itself.
  if (line.find("rank 0 cannot write ") != std::string::npos) return 0;
  return std::nullopt;
}

bool blames_one_of(const std::string& line, const Scene& scene) {
  const auto culprit = blamed_by(line, scene.host);
  return culprit && scene.blamed.contains(*culprit);
}

// The launcher puts [rank r] in front of the lines of all ranks but 0, and "  | " before those that
// it quotes.
bool spoken_by(const std::string& line, int rank) {
  if (rank != 0) return line.starts_with(fmt::format("[rank {}] ", rank));
  return !line.starts_with("[rank ") && !line.starts_with("  | ");
}

// Before a group is complete nobody can be lost to it. Who gave up is not to blame, nor who is
// quoted.
bool launcher_names_while_joining(const std::string& last, const Scene& scene) {
  static const std::regex kSpeaker(R"(rank \d+ gave up|said: rank \d+ \([^)]*\))");
  const std::string accused = std::regex_replace(last, kSpeaker, "");
  return last.find(scene.host) != std::string::npos &&
         std::ranges::any_of(scene.blamed, [&](int rank) {
           const std::regex named(fmt::format(R"(rank (?:\d+, )*{}\b)", rank));
           return std::regex_search(accused, named);
         });
}

}  // namespace

std::set<int> ranks_without_room(std::string_view output) {
  static const std::regex kForm(
      R"(thinwire: rank (\d+) (?:\([^)]+\) )?cannot write .*No space left on device)");
  std::set<int> ranks;
  for (const std::string& line : lines_of(output)) {
    std::smatch match;
    if (std::regex_search(line, match, kForm)) ranks.insert(std::stoi(match[1]));
  }
  return ranks;
}

std::string not_named(std::string_view err, const Scene& scene, int exit_code) {
  std::vector<std::string> lines = lines_of(err);
  if (lines.empty()) return "nobody says anything";
  const std::string last = lines.back();  // the launcher's
  lines.pop_back();
  for (const int rank : scene.survivors) {
    const bool named = std::ranges::any_of(lines, [&](const std::string& line) {
      return spoken_by(line, rank) && blames_one_of(line, scene);
    });
    if (!named) {
      return fmt::format("rank {} does not name rank {}", rank, fmt::join(scene.blamed, " or "));
    }
  }
  const bool launcher = last.find(scene.host) != std::string::npos && blames_one_of(last, scene);
  if (!launcher && !(scene.joining && launcher_names_while_joining(last, scene))) {
    return fmt::format("the launcher does not name rank {}, its host and the operation",
                       fmt::join(scene.blamed, " or "));
  }
  if (exit_code != 1) return fmt::format("the exit code is {} instead of 1", exit_code);
  return "";
}

std::string not_named_under_mpi(std::string_view output, const Scene& scene, int exit_code) {
  static const std::regex kMpirun(
      R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal)");
  const auto lines = lines_of(output);
  const bool named = std::ranges::any_of(lines, [&](const std::string& line) {
    std::smatch match;
    if (std::regex_search(line, match, kMpirun)) {
      return match[2] == scene.host && scene.blamed.contains(std::stoi(match[1]));
    }
    const bool of_itself = line.find("given up by its peers") != std::string::npos;
    return !of_itself && blames_one_of(line, scene);
  });
  if (!named) {
    return fmt::format("nobody names rank {}, its host and the operation",
                       fmt::join(scene.blamed, " or "));
  }
  if (exit_code == 0) return "the exit code is 0";
  return "";
}

}  // namespace thinwire::faults
