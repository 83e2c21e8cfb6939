// Writes and reads one checkpoint file.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/unique_fd.h"
#include "thinwire/error.h"
#include "trainer/checkpoint.h"

namespace thinwire::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kMagic = 0x4b435754;  // "TWCK"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kLongestText = 4096;
constexpr std::uint32_t kMostSections = 255;

[[noreturn]] void fail(const fs::path& file, const char* operation) {
  throw Error(fmt::format("{}: {} failed ({})", file.string(), operation,
                          std::generic_category().message(errno)));
}

// Returns the name of the system call that failed, with errno set; null if none did.
const char* write_and_sync(int fd, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 1u << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return "write";
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return fsync(fd) == 0 ? nullptr : "fsync";
}

// Writes and syncs the file under another name first, so that it exists completely or not at all.
void write_atomically(const fs::path& file, const Payload& bytes) {
  const fs::path temporary = file.string() + std::string(kUnfinished);
  base::UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) fail(temporary, "open");
  const char* failed = write_and_sync(fd.get(), bytes);
  int error = errno;
  fd.reset();
  if (failed == nullptr && rename(temporary.c_str(), file.c_str()) != 0) {
    failed = "rename";
    error = errno;
  }
  if (failed == nullptr) return;
  unlink(temporary.c_str());  // an incomplete file is of no use, and the disk may be full
  errno = error;
  fail(file, failed);
}

Payload read_whole(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) throw WireError(fmt::format("{}: {}", file.string(), error.message()));
  // Memory is needed for the file and for its sections, which are copies.
  const std::optional<std::uint64_t> room = base::available_memory();
  if (room && size > *room / 2) {
    throw WireError(
        fmt::format("{}: too large for the memory of this machine ({} bytes; {} available)",
                    file.string(), size, *room));
  }
  Payload bytes(size);
  std::ifstream in(file, std::ios::binary);
  if (!in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size))) {
    throw WireError(fmt::format("{}: cannot be read", file.string()));
  }
  return bytes;
}

template <class T>
void demand(const fs::path& file, std::string_view what, const T& theirs, const T& ours) {
  if (theirs == ours) return;
  throw ConfigError(
      fmt::format("resume: {} is of another run ({} {}; this run has {}); use the options of the "
                  "interrupted run, or start a new one",
                  file.string(), what, theirs, ours));
}

}  // namespace

void write_checkpoint(const fs::path& file, const Identity& identity, std::uint64_t step,
                      const std::vector<Section>& sections) {
  Payload bytes;
  base::ByteWriter writer(bytes);
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(step);
  for (const std::string* text : {&identity.model, &identity.data, &identity.strategy}) {
    writer.put_text(*text);
  }
  writer.put(identity.workers);
  for (const std::uint64_t number : {identity.numel, identity.seed, identity.batch}) {
    writer.put(number);
  }
  writer.put(static_cast<std::uint32_t>(sections.size()));
  for (const Section& section : sections) {
    writer.put_text(section.name);
    writer.put(static_cast<std::uint64_t>(section.bytes.size()));
    writer.put(Bytes(section.bytes));
  }
  writer.put(base::hash64(bytes));
  write_atomically(file, bytes);
}

std::vector<Section> read_checkpoint(const fs::path& file, const Identity& identity,
                                     std::uint64_t step) {
  const Payload bytes = read_whole(file);
  constexpr std::size_t kSum = sizeof(std::uint64_t);
  const std::string name = file.string();
  if (bytes.size() < kSum) throw WireError(fmt::format("{}: truncated", name));
  base::ByteReader sum(Bytes(bytes).last(kSum), name);
  if (sum.get<std::uint64_t>() != base::hash64(Bytes(bytes).first(bytes.size() - kSum))) {
    throw WireError(fmt::format("{}: damaged or truncated (its checksum does not match)", name));
  }
  base::ByteReader reader(Bytes(bytes).first(bytes.size() - kSum), name);
  if (reader.get<std::uint32_t>() != kMagic) {
    throw WireError(fmt::format("{}: not a checkpoint of thinwire", name));
  }
  demand(file, "format version", reader.get<std::uint32_t>(), kVersion);
  if (reader.get<std::uint64_t>() != step)
    throw WireError(fmt::format("{}: of another step than its name says", name));
  demand(file, "model", reader.get_text(kLongestText), identity.model);
  demand(file, "data", reader.get_text(kLongestText), identity.data);
  demand(file, "strategy", reader.get_text(kLongestText), identity.strategy);
  demand(file, "workers", reader.get<std::uint32_t>(), identity.workers);
  demand(file, "parameters", reader.get<std::uint64_t>(), identity.numel);
  demand(file, "seed", reader.get<std::uint64_t>(), identity.seed);
  demand(file, "batch", reader.get<std::uint64_t>(), identity.batch);

  const auto count = reader.get<std::uint32_t>();
  if (count > kMostSections)
    throw WireError(fmt::format("{}: too many sections ({})", name, count));
  std::vector<Section> sections(count);
  for (Section& section : sections) {
    section.name = reader.get_text(kLongestText);
    const Bytes contents = reader.take(reader.get<std::uint64_t>());
    section.bytes.assign(contents.begin(), contents.end());
  }
  reader.expect_end();
  return sections;
}

}  // namespace thinwire::trainer
