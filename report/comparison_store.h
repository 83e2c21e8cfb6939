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
  // Opens the comparison in `directory`, or begins one where nothing is. Throws ConfigError if it
  // holds something else, or a comparison with another setting: which one is said.
  ComparisonStore(std::filesystem::path directory, const Setting& setting);

  // Returns a name that depends on the setting, so that the same setting finds its comparison
  // again.
  static std::string default_name(const Setting& setting);

  const std::filesystem::path& directory() const noexcept { return directory_; }
  std::filesystem::path run_directory(const std::string& strategy) const;
  // Returns nothing if the run has not started or not finished.
  std::optional<ComparedRun> finished_run(const std::string& strategy) const {
    return read_run(run_directory(strategy), strategy);
  }
  // Returns all finished runs in the directory, also those of earlier calls, in the order of their
  // names.
  std::vector<ComparedRun> finished_runs() const;

  // Renames the summary and the checkpoints of a run that ended but failed, so that it neither
  // counts nor is resumed. Has no effect if there is no summary.
  void set_aside(const std::string& strategy) const;
  // Prepares the directory of a run. Warnings of earlier attempts are kept only if it is resumed.
  enum class Attempt { from_start, resumed };
  void begin_run(const std::string& strategy, Attempt attempt) const;
  // Keeps the warnings of an attempt with the run.
  void add_warnings(const std::string& strategy, const std::vector<std::string>& warnings) const;
  // Writes a file under another name first, so that a reader finds the old file or the new one.
  void write(std::string_view name, std::string_view text) const;

 private:
  void compare_with(const std::string& note, const Setting& setting) const;

  std::filesystem::path directory_;
};

}  // namespace thinwire::report
