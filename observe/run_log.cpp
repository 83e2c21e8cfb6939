#include "observe/run_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "thinwire/error.h"

namespace thinwire::observe {
namespace {

namespace fs = std::filesystem;

std::string this_host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// Only rank 0 writes these files.
[[noreturn]] void cannot_write(const fs::path& file) {
  ErrorFields fields;
  fields.rank = fields.peer = 0;
  fields.host = this_host();
  fields.operation = "save";
  fields.remedy = Remedy::free_disk_space;
  throw Error(fmt::format("rank 0: cannot write {} ({})", file.string(),
                          std::generic_category().message(errno)),
              std::move(fields));
}

}  // namespace

bool RunLog::open(fs::path file, bool resumed) {
  file_ = std::move(file);
  stream_.open(file_, resumed ? std::ios::app : std::ios::trunc);
  return static_cast<bool>(stream_);
}

void RunLog::write(const Json& line) {
  const std::string text = line.dump();
  if (!(stream_ << text << std::endl)) cannot_write(file_);
}

void RunLog::drop_from(std::uint64_t step) {
  stream_.close();
  std::string kept;
  {
    std::ifstream in(file_);
    for (std::string text; std::getline(in, text);) {
      const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
      const bool has_step = line.is_object() && line.contains("step");
      if (!has_step || !line["step"].is_number_unsigned()) continue;
      if (line["step"].get<std::uint64_t>() < step) kept += text + '\n';
    }
  }
  // The new log is complete before it replaces the old one, so that a kill never loses it.
  const fs::path shortened = file_.string() + ".tmp";
  stream_.open(shortened, std::ios::trunc);
  if (!(stream_ << kept << std::flush)) cannot_write(shortened);
  fs::rename(shortened, file_);
}

void write_line(const fs::path& file, const std::string& text) {
  std::ofstream out(file);
  if (!(out << text << std::endl)) cannot_write(file);
}

}  // namespace thinwire::observe
