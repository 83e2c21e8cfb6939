#include "c_api/last_error.h"

#include <new>
#include <string>

#include "c_api/usage_error.h"
#include "observe/events.h"
#include "thinwire/error.h"

namespace thinwire::c_api {
namespace {

struct LastError {
  std::string text;
  std::string fields = "{}";
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

// Returns the JSON of the fields; `kind` replaces theirs unless it is null.
std::string to_text(const ErrorFields& fields, const char* kind) {
  observe::Json json = observe::to_json(fields);
  if (kind != nullptr) json["kind"] = kind;
  return json.dump(-1, ' ', true, observe::Json::error_handler_t::replace);
}

tw_status remember(tw_status status, const char* text, const ErrorFields& fields = {},
                   const char* kind = nullptr) noexcept {
  LastError& error = last_error();
  try {
    error = {text, to_text(fields, kind)};
  } catch (...) {  // no memory: the status remains, without the text of an earlier error
    error.text.clear();
    error.fields.assign("{}");  // a short string needs no memory
  }
  return status;
}
tw_status remember_internal(const char* text) noexcept {
  return remember(TW_INTERNAL, text, {}, "internal");
}

tw_status status_of(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::failure:
      return TW_FAILURE;
    case ErrorKind::config:
      return TW_CONFIG;
    case ErrorKind::wire:
      return TW_WIRE;
    case ErrorKind::join:
      return TW_JOIN;
    case ErrorKind::deadline:
      return TW_DEADLINE;
    case ErrorKind::lost:
      return TW_LOST;
  }
  return TW_INTERNAL;
}

}  // namespace

const char* last_error_text() noexcept { return last_error().text.c_str(); }
const char* last_error_fields() noexcept { return last_error().fields.c_str(); }

tw_status remember_usage(const char* text) noexcept {
  return remember(TW_USAGE, text, {}, "usage");
}

tw_status remember_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return remember(status_of(error.kind()), error.what(), error.fields());
  } catch (const UsageError& error) {
    return remember_usage(error.what());
  } catch (const std::bad_alloc&) {
    return remember_internal("thinwire: out of memory");
  } catch (const std::exception& error) {
    return remember_internal(error.what());
  } catch (...) {
    return remember_internal("thinwire: unknown exception");
  }
}

}  // namespace thinwire::c_api
