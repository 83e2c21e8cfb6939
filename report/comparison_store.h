// The directory of a comparison: one directory per run, and a note of what all runs share.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/comparison.h"

namespace thinwire::report {

class ComparisonStore {
 public:
  // Opens the comparison in `directory`, or begins one where nothing is. ConfigError if it holds
  // something else, or a comparison with another setting: which one is said.
  ComparisonStore(std::filesystem::path directory, const Setting& setting);

  // Such that the same setting finds its comparison again, and another one does not meet it.
  static std::string default_name(const Setting& setting);

  const std::filesystem::path& directory() const noexcept { return directory_; }
  std::filesystem::path run_directory(const std::string& strategy) const;
  // None if it is still to be run, or to be finished.
  std::optional<ComparedRun> finished_run(const std::string& strategy) const {
    return read_run(run_directory(strategy), strategy);
  }
  // All that are there, whoever asked for them, in the order of their names.
  std::vector<ComparedRun> finished_runs() const;

  // A run that came to its end but failed: its summary and its checkpoints get other names, so that
  // it neither counts nor goes on. Nothing happens if there is no summary.
  void set_aside(const std::string& strategy) const;
  // Warnings of earlier attempts are kept only if the run goes on.
  enum class Attempt { anew, resumed };
  void begin_run(const std::string& strategy, Attempt attempt) const;
  // Keeps the warnings of an attempt with the run.
  void add_warnings(const std::string& strategy, const std::vector<std::string>& warnings) const;
  // Under another name first, so that a reader finds the old file or the new one.
  void write(std::string_view name, std::string_view text) const;

 private:
  void compare_with(const std::string& note, const Setting& setting) const;

  std::filesystem::path directory_;
};

}  // namespace thinwire::report
