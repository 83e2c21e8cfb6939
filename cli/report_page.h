// A comparison as one HTML page that needs nothing else: no network, no other file.
#pragma once

#include <string>

#include "cli/comparison.h"
#include "cli/verdict.h"

namespace thinwire::cli {

std::string report_page(const Comparison& comparison, const Verdict& verdict);

}  // namespace thinwire::cli
