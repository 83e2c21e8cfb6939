// A mistake of the caller: an invalid argument, a closed handle, a call out of order.
#pragma once

#include <stdexcept>

namespace thinwire::c_api {

class UsageError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace thinwire::c_api
