// Formats quantities for people.
#pragma once

#include <string>

#include "thinwire/types.h"

namespace thinwire::base {

std::string readable_bytes(double bytes);  // "57.6 MB"
std::string readable_time(Seconds time);   // "412 ms", "3 min 05 s"
// Returns text such as "6.1x". It is rounded down, so that the text never claims more than was
// measured.
std::string readable_factor(double factor);
std::string gibibytes(std::uint64_t bytes);  // "0.37 GiB"

}  // namespace thinwire::base
