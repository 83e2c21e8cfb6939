// The text of an exception of any type, for the ranks that are informed of it.
#pragma once

#include <exception>
#include <string>

namespace thinwire::transport {

// Returns what() of the exception, which must not be null. Called from any thread; throws
// std::bad_alloc only.
inline std::string exception_text(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "it threw an object that is not a std::exception";
  }
}

}  // namespace thinwire::transport
