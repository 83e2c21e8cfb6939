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
std::optional<int> blamed_by(const std::string& line, int speaker) {
  static const std::regex kForms[] = {
      std::regex(R"(lost rank (\d+) \([^)]+\) while (?:receiving|sending|waiting))"),
      std::regex(R"(no progress for [^:]* while (?:receiving from|sending to) rank (\d+) \()"),
      std::regex(R"(rank (\d+) \([^)]+\) cannot write its checkpoint)"),
      std::regex(R"(rank (\d+) cannot write \S+run.jsonl)"),
  };
  for (const std::regex& form : kForms) {
    std::smatch match;
    if (std::regex_search(line, match, form)) return std::stoi(match[1]);
  }
  if (line.find("given up by its peers while") != std::string::npos) return speaker;
  return std::nullopt;
}

// The launcher puts [rank r] in front of the lines of all ranks but 0.
bool spoken_by(const std::string& line, int rank) {
  const bool prefixed = line.starts_with("[rank ");
  return rank == 0 ? !prefixed : line.starts_with(fmt::format("[rank {}] ", rank));
}

}  // namespace

std::string not_named(std::string_view err, const std::set<int>& survivors,
                      const std::set<int>& blamed, int exit_code) {
  const std::vector<std::string> lines = lines_of(err);
  for (const int rank : survivors) {
    const bool named = std::ranges::any_of(lines, [&](const std::string& line) {
      const auto culprit = spoken_by(line, rank) ? blamed_by(line, rank) : std::nullopt;
      return culprit && blamed.contains(*culprit);
    });
    if (!named) {
      return fmt::format("rank {} does not name rank {}", rank, fmt::join(blamed, " or "));
    }
  }
  const std::string last = lines.empty() ? "" : lines.back();
  const bool launcher = std::ranges::any_of(blamed, [&](int rank) {
    return last.find(fmt::format("rank {}", rank)) != std::string::npos;
  });
  if (!launcher)
    return fmt::format("the launcher does not name rank {}", fmt::join(blamed, " or "));
  if (exit_code != 1) return fmt::format("the exit code is {} instead of 1", exit_code);
  return "";
}

std::string not_named_under_mpi(std::string_view output, const std::set<int>& blamed,
                                int exit_code) {
  const bool named = std::ranges::any_of(blamed, [&](int rank) {
    return output.find(fmt::format("rank {}", rank)) != std::string_view::npos;
  });
  if (!named) return fmt::format("nobody names rank {}", fmt::join(blamed, " or "));
  if (exit_code == 0) return "the exit code is 0";
  return "";
}

}  // namespace thinwire::faults
