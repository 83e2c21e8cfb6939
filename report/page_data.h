// The content of the report page as JSON: what its template shows as HTML, and what its script
// draws.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "report/comparison.h"
#include "report/recommendation.h"

namespace thinwire::report {

// Returns the values of the template: headline, sentences, caveats, table, setting. All are texts
// or flags; the template escapes them.
nlohmann::json page_values(const Comparison& comparison, const Recommendation& recommendation);

// Returns the numbers behind the charts, one object per run, in base units (seconds, bytes). The
// script of the page (page/page.js) reads it. Numbers that are not finite become null.
nlohmann::json chart_data(const Comparison& comparison, const Recommendation& recommendation);

// Returns JSON as text that cannot end the <script> element around it, whatever its strings hold:
// it is ASCII and has no angle brackets. Invalid UTF-8 becomes U+FFFD.
std::string script_safe(const nlohmann::json& value);

}  // namespace thinwire::report
