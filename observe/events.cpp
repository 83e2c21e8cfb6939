#include "observe/events.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <system_error>

namespace thinwire::observe {
namespace {

template <class Value>
Json known(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string reason() { return std::generic_category().message(errno); }

}  // namespace

Json to_json(const ErrorFields& fields) {
  const auto rank = [](int number) { return number == kNoRank ? Json() : Json(number); };
  const auto text = [](const std::string& word) { return word.empty() ? Json() : Json(word); };
  return Json{{"kind", to_string(fields.kind)},
              {"rank", rank(fields.rank)},
              {"peer", rank(fields.peer)},
              {"host", text(fields.host)},
              {"operation", text(fields.operation)},
              {"bytes_done", known(fields.bytes_done)},
              {"bytes_total", known(fields.bytes_total)},
              {"seconds", fields.seconds ? Json(fields.seconds->count()) : Json()},
              {"remedy", to_string(fields.remedy)}};
}

EventWriter::EventWriter(const std::filesystem::path& file, Open how)
    : file_(file),
      descriptor_(open(
          file.c_str(),
          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (how == Open::fresh ? O_TRUNC : 0), 0666)) {
  if (!descriptor_) {
    throw ConfigError(
        fmt::format("event file {}: it cannot be written ({})", file.string(), reason()));
  }
}

// Removes the beginning of a line, `written` bytes, that no room was left for, so that the next
// event of any rank starts a line of its own.
void EventWriter::remove_partial_line(ssize_t written) const {
  const off_t end = lseek(descriptor_.get(), 0, SEEK_CUR);
  struct stat status {};
  const bool last = fstat(descriptor_.get(), &status) == 0 && status.st_size == end;
  if (written > 0 && last && ftruncate(descriptor_.get(), end - written) != 0) return;
}

void EventWriter::write(std::string_view name, const Json& fields) {
  Json event{{"event", name}, {"at", unix_time()}};
  event.update(fields);
  // A path need not be UTF-8, but JSON is.
  const std::string line = event.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  ssize_t written = 0;
  do {
    written = ::write(descriptor_.get(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return;
  if (written >= 0) {
    remove_partial_line(written);
    errno = ENOSPC;
  }
  ErrorFields facts;
  facts.operation = "save";
  facts.remedy = Remedy::free_disk_space;
  throw Error(fmt::format("event file {}: it cannot be written ({})", file_.string(), reason()),
              std::move(facts));
}

std::vector<Json> EventReader::read_new() {
  std::ifstream in(file_, std::ios::binary);
  if (!in.seekg(static_cast<std::streamoff>(offset_))) return {};
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<Json> events;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    Json event = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                             text.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                             /*allow_exceptions=*/false);
    if (event.is_object() && event.contains("event") && event["event"].is_string()) {
      events.push_back(std::move(event));
    }
  }
  offset_ += begin;
  return events;
}

}  // namespace thinwire::observe
