// run.jsonl, the log of a run: one JSON object per line, each with the number of its step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "observe/events.h"

namespace thinwire::observe {

class RunLog {
 public:
  // Opens the file. `resumed` keeps what it holds; otherwise the log starts empty. Returns whether
  // the file can be written.
  bool open(std::filesystem::path file, bool resumed);
  bool is_open() const { return stream_.is_open(); }

  // Appends one line, which is in the file when this returns, so that a run that is killed has its
  // last steps. Throws Error if it cannot be written.
  void write(const Json& line);

  // Removes the lines of this step and later ones: a run that was killed has logged steps after its
  // last checkpoint and runs them again. Damaged lines are removed, too.
  void drop_from(std::uint64_t step);

 private:
  std::filesystem::path file_;
  std::ofstream stream_;
};

// Writes one line as the whole content of the file. Throws Error if it cannot be written.
void write_line(const std::filesystem::path& file, const std::string& text);

}  // namespace thinwire::observe
