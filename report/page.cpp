#include "report/page.h"

#include <nlohmann/json.hpp>

#include "page_files.h"
#include "report/html_template.h"
#include "report/page_data.h"

namespace thinwire::report {

std::string report_page(const Comparison& comparison, const Recommendation& recommendation) {
  nlohmann::json values = page_values(comparison, recommendation);
  values["style"] = page_files::kStyle;
  values["script"] = page_files::kScript;
  values["chart_style"] = page_files::kChartStyle;
  values["chart_script"] = page_files::kChartScript;
  values["chart_license"] = page_files::kChartLicense;
  values["data"] = script_safe(chart_data(comparison, recommendation));
  return fill_template(page_files::kTemplate, values);
}

}  // namespace thinwire::report
