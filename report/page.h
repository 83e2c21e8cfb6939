// A comparison as one HTML page.
#pragma once

#include <string>

#include "report/comparison.h"
#include "report/recommendation.h"

namespace thinwire::report {

// Returns a page that needs no network and no other file: style sheet, script, chart library and
// data are part of it. Recommendation, table and setting are plain HTML; the charts need
// JavaScript. Texts of the comparison may hold anything: the page escapes them.
std::string report_page(const Comparison& comparison, const Recommendation& recommendation);

}  // namespace thinwire::report
