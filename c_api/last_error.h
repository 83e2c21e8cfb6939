// How exceptions become statuses of the C API, and the last error of each thread.
#pragma once

#include "thinwire/thinwire_c.h"

namespace thinwire::c_api {

// The text and the fields (JSON) of the last error of this thread. Both are valid until its next
// error.
const char* last_error_text() noexcept;
const char* last_error_fields() noexcept;

// Makes the text the last error of this thread. Returns TW_USAGE.
tw_status remember_usage(const char* text) noexcept;
// Called while an exception is handled: makes it the last error of this thread and returns its
// status. Only UsageError is TW_USAGE: any other std::logic_error is a bug of thinwire, because the
// C API checks arguments and the order of calls itself.
tw_status remember_exception() noexcept;

// Calls `call`, which returns a status, and turns what it throws into one.
template <class Call>
tw_status guarded(Call call) noexcept {
  try {
    return call();
  } catch (...) {
    return remember_exception();
  }
}

}  // namespace thinwire::c_api
