// Quantities as people read them.
#pragma once

#include <string>

#include "thinwire/types.h"

namespace thinwire::base {

std::string readable_bytes(double bytes);  // "57.6 MB"
std::string readable_time(Seconds time);   // "412 ms", "3 min 05 s"
// "6.1x": never more than the number, so that no claim grows by rounding.
std::string readable_factor(double factor);
std::string gibibytes(std::uint64_t bytes);  // "0.37 GiB"

}  // namespace thinwire::base
