#include "trainer/data/file.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "base/memory.h"
#include "thinwire/error.h"

namespace thinwire::trainer {

namespace fs = std::filesystem;

DataFile::DataFile(fs::path path, std::uint64_t expected_bytes, std::string advice)
    : path_(std::move(path)), advice_(std::move(advice)) {
  check_kind(expected_bytes);
  file_.reset(std::fopen(path_.c_str(), "rb"));
  if (!file_) refuse(fmt::format("cannot be opened ({})", std::generic_category().message(errno)));
  std::error_code failure;
  size_ = fs::file_size(path_, failure);
  if (failure) refuse(fmt::format("cannot be read ({})", failure.message()));
}

// This is checked before the file is opened, because opening a pipe would wait for a writer.
void DataFile::check_kind(std::uint64_t expected_bytes) const {
  std::error_code failure;
  const fs::file_status status = fs::status(path_, failure);
  if (fs::is_regular_file(status)) return;
  if (fs::exists(status)) refuse("is not a file");
  if (failure && status.type() != fs::file_type::not_found) {
    refuse(fmt::format("cannot be reached ({})", failure.message()));
  }
  fs::path packed = path_;
  packed += ".gz";
  if (fs::exists(packed, failure)) {
    throw ConfigError(
        fmt::format("'{}': it is missing ('{}' is there); unpack that with `gunzip -k {}`",
                    path_.string(), packed.string(), packed.string()));
  }
  if (expected_bytes == 0) refuse("is missing");
  refuse(fmt::format("is missing ({} bytes expected)", expected_bytes));
}

void DataFile::expect_size(std::uint64_t bytes) const {
  if (size_ != bytes) refuse(fmt::format("is damaged (it has {} bytes, not {})", size_, bytes));
}

void DataFile::expect_room(std::uint64_t bytes) const {
  const std::optional<std::uint64_t> room = base::available_memory();
  if (!room || bytes <= *room) return;
  refuse(
      fmt::format("does not fit into memory (it needs {} bytes, {} are available)", bytes, *room));
}

void DataFile::read(std::span<std::uint8_t> into) {
  if (into.empty()) return;
  const std::size_t got = std::fread(into.data(), 1, into.size(), file_.get());
  read_ += got;
  if (got == into.size()) return;
  if (std::ferror(file_.get()) != 0) {
    refuse(fmt::format("cannot be read ({})", std::generic_category().message(errno)));
  }
  refuse(
      fmt::format("ended after {} of {} bytes (another program is changing it)", got, into.size()));
}

void DataFile::refuse(std::string_view reason) const {
  throw ConfigError(fmt::format("'{}': it {}; {}", path_.string(), reason, advice_));
}

}  // namespace thinwire::trainer
