// A file of a data set, which may be missing, damaged or not a regular file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace thinwire::trainer {

// Every failure is a ConfigError that names the file and ends with `advice`, which says how to get
// the file.
class DataFile {
 public:
  // Opens the file. `expected_bytes` is the size of the published file, for the message if it is
  // missing; 0 if it may have any size.
  DataFile(std::filesystem::path path, std::uint64_t expected_bytes, std::string advice);

  std::uint64_t size() const noexcept { return size_; }
  // Throws unless the file has exactly this size. Called before memory is allocated.
  void expect_size(std::uint64_t bytes) const;
  // Returns how many bytes were not read yet.
  std::uint64_t left() const noexcept { return size_ - read_; }
  // Throws unless this much memory is available. Called before memory is allocated whose size the
  // file decides.
  void expect_room(std::uint64_t bytes) const;
  // Reads the next into.size() bytes.
  void read(std::span<std::uint8_t> into);
  // Throws ConfigError with the text "'PATH' REASON; ADVICE".
  [[noreturn]] void refuse(std::string_view reason) const;

 private:
  void check_kind(std::uint64_t expected_bytes) const;

  struct Close {
    void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
  };
  std::filesystem::path path_;
  std::string advice_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t size_ = 0;
  std::uint64_t read_ = 0;
};

}  // namespace thinwire::trainer
