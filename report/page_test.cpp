// The report page: what it shows, what its script gets, and that no text of a run breaks out.
#include "report/page.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "report/page_data.h"
#include "testing/expect.h"
#include "tests/sample_comparison.h"

namespace thinwire::report {
namespace {

using Json = nlohmann::json;

std::string page_of(const Comparison& comparison) {
  return report_page(comparison, recommend(comparison));
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at) ++found;
  return found;
}

// Reads the data back as a browser does: up to the first end tag of a script.
Json data_of(std::string_view page) {
  constexpr std::string_view kStart = "<script type=\"application/json\" id=\"data\">";
  const std::size_t start = page.find(kStart) + kStart.size();
  return Json::parse(page.substr(start, page.find("</script", start) - start));
}

TEST(ReportPage, IsReadableWithoutItsScript) {
  const Comparison comparison = sample_comparison();
  const Recommendation recommendation = recommend(comparison);
  const std::string page = report_page(comparison, recommendation);
  const std::string plain = page.substr(0, page.find("<script"));
  for (const std::string_view part :
       {"2 of 3 strategies", "is the best choice of the 2 that finished",
        "<li>dense is the baseline", "<li>gtopk:density=0.1: as accurate as dense",
        "One seed is one sample", "<noscript>", "<td>95.00 %</td>",
        "thinwire compare --data &#39;text:&lt;b&gt;&#39;",
        "<dt>data</dt><dd>text:&lt;b&gt;</dd>"}) {
    EXPECT_TRUE(test::has(plain, part));
  }
  EXPECT_EQ(plain.find("<dt>network</dt>"), std::string::npos) << "it is empty";
}

TEST(ReportPage, NamesAllRunsAndTheProblemsOfUnfinishedOnes) {
  const std::string page = page_of(sample_comparison());
  for (const std::string_view name : {"dense", "gtopk:density=0.1", "lasgd"}) {
    const std::string row = std::string("</span>").append(name).append("</th>");
    EXPECT_EQ(count(page, row), 1u) << name;
  }
  EXPECT_TRUE(test::has(page, "<td class=\"problem\" colspan=\"14\">said &lt;script&gt;alert(1)"));
  EXPECT_EQ(count(page, "<button"), 2u) << "one for each run that the charts show";
}

TEST(ReportPage, StandsWithoutAnyResult) {
  Comparison comparison;
  comparison.runs.resize(1);
  comparison.runs[0].strategy = "dense";
  const std::string page = page_of(comparison);
  EXPECT_TRUE(test::has(page, "not run yet"));
  EXPECT_EQ(page.find("<script"), std::string::npos) << "nothing to draw";
}

TEST(ReportPage, HasAColumnForTheWorstWorkerIfItDiffers) {
  Comparison comparison = sample_comparison();
  EXPECT_EQ(page_of(comparison).find("worst worker"), std::string::npos);
  comparison.runs[1].accuracy_worst_worker = 0.9;
  const std::string page = page_of(comparison);
  EXPECT_TRUE(test::has(page, "<th scope=\"col\">worst worker</th>"));
  EXPECT_TRUE(test::has(page, "<td>90.00 %</td>"));
}

TEST(ReportPage, LeavesOutWhatIsNotKnown) {
  Comparison comparison = sample_comparison();
  comparison.runs[0] = comparison.runs[2];  // without a baseline
  comparison.runs[0].strategy = "dense";
  const std::string page = page_of(comparison);
  EXPECT_EQ(page.find("<td>never</td>"), std::string::npos);
  EXPECT_TRUE(test::has(page, "<td>–</td>"));
}

TEST(ReportPage, HasOnlyChartsWithContent) {
  Comparison comparison = sample_comparison();
  for (const std::string_view part :
       {"Accuracy against time", "Accuracy against bytes", "Accuracy against steps",
        "Where a step's time goes", "Bytes per step", "Residual ratio", "Consensus distance"}) {
    EXPECT_TRUE(test::has(page_of(comparison), part));
  }
  comparison.runs[1].residuals = {{1, 0}, {2, 0}};
  comparison.runs[1].consensus_distance = 0;
  EXPECT_EQ(page_of(comparison).find("<h2>Residual ratio"), std::string::npos);
  EXPECT_EQ(page_of(comparison).find("<h2>Consensus distance"), std::string::npos);
}

TEST(ReportPage, NeedsNoOtherFileAndNoNetwork) {
  const std::string page = page_of(sample_comparison());
  for (const std::string_view outside :
       {"src=", "href=", "@import", "url(", "<link", "fetch(", "XMLHttpRequest", "import("}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  for (const std::string_view part : {"prefers-color-scheme: dark", "name=\"viewport\"",
                                      "default-src 'none'", "var uPlot", "The MIT License"}) {
    EXPECT_TRUE(test::has(page, part));
  }
}

TEST(ReportPage, GivesItsScriptTheNumbers) {
  const Json data = data_of(page_of(sample_comparison()));
  EXPECT_EQ(data["target"], 0.94);
  EXPECT_EQ(data["virtual_time"], false);
  ASSERT_EQ(data["runs"].size(), 3u);
  const Json& dense = data["runs"][0];
  EXPECT_EQ(dense["strategy"], "dense");
  EXPECT_EQ(dense["tests"][0],
            (Json{{"step", 50}, {"seconds", 5.0}, {"bytes", 250.0}, {"accuracy", 0.5}}));
  EXPECT_EQ(dense["seconds_per_step"], 0.1);
  EXPECT_EQ(dense["step_parts"][0], (Json{{"name", "compute"}, {"seconds", 0.04}}));
  EXPECT_EQ(dense["step_parts"][4], (Json{{"name", "other"}, {"seconds", 0.01}}));
  EXPECT_EQ(dense["bytes_per_worker_step"], 1000);
  EXPECT_TRUE(dense["consensus_distance"].is_null());
  EXPECT_TRUE(dense["residuals"].empty());
  const Json& gtopk = data["runs"][1];
  EXPECT_EQ(gtopk["residuals"].size(), 2u) << "a ratio of 0 has no place on its axis";
  EXPECT_EQ(gtopk["consensus_distance"], 0.01);
  EXPECT_EQ(data["runs"][2]["finished"], false);
  EXPECT_EQ(data["runs"][2]["problem"], "said <script>alert(1)</script>");
}

TEST(ReportPage, OnlyTheBaselineHasItsColor) {
  Comparison comparison = sample_comparison();
  comparison.runs.resize(1);
  for (int i = 1; i <= 9; ++i) {
    comparison.runs.push_back(comparison.runs[0]);
    comparison.runs.back().strategy = "strategy" + std::to_string(i);
  }
  std::swap(comparison.runs[0], comparison.runs[1]);
  const Json runs = data_of(page_of(comparison))["runs"];
  EXPECT_EQ(runs[0]["color"], 1);
  EXPECT_EQ(runs[1]["color"], 0) << "dense";
  EXPECT_EQ(runs[8]["color"], 8);
  EXPECT_EQ(runs[8]["dashed"], false);
  EXPECT_EQ(runs[9]["color"], 1) << "after the last color the first, dashed";
  EXPECT_EQ(runs[9]["dashed"], true);
}

TEST(ReportPage, WritesNumbersThatAreNotFiniteAsNull) {
  Comparison comparison = sample_comparison();
  comparison.runs[1].tests[0].accuracy = std::nan("");
  comparison.runs[1].bytes_per_worker_step = std::numeric_limits<double>::infinity();
  const Json run = data_of(page_of(comparison))["runs"][1];
  EXPECT_TRUE(run["tests"][0]["accuracy"].is_null());
  EXPECT_TRUE(run["bytes_per_worker_step"].is_null());
}

TEST(ScriptSafe, IsAsciiWithoutTags) {
  EXPECT_EQ(script_safe("</script><!--"), "\"\\u003c/script\\u003e\\u003c!--\"");
  EXPECT_EQ(script_safe("\u2028\u2029ü"), "\"\\u2028\\u2029\\u00fc\"");
  EXPECT_EQ(script_safe("\xff"), "\"\\ufffd\"") << "invalid UTF-8";
}

// A text made of what could end an element, an attribute, a string or a template tag.
rc::Gen<std::string> hostile_text() {
  const auto piece = rc::gen::element<std::string>(
      "</script>", "<!--", "-->", "<script>", "</SCRIPT ", "]]>", "\"", "'", "`", "\\", "&lt;",
      "{{", "}}", "{{{data}}}", "{{/runs}}", "</style>", "</td>", "\u2028", "\u2029", "\n",
      "${alert(1)}", "javascript:", "<img onerror=x>", "ü", "a");
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(piece),
                      [](const std::vector<std::string>& pieces) {
                        std::string out;
                        for (const std::string& each : pieces) out += each;
                        return out;
                      });
}

RC_GTEST_PROP(ReportPage, NoTextBreaksOut, ()) {
  const auto hostile = [] { return *hostile_text(); };
  Comparison harmless = sample_comparison();
  harmless.title = harmless.command = harmless.runs[2].problem = "a";
  Comparison comparison = harmless;
  comparison.title = hostile();
  comparison.command = hostile();
  comparison.setting[0] = {hostile(), hostile() + "."};
  comparison.runs[1].strategy = "x" + hostile();
  comparison.runs[1].warnings = {hostile()};
  comparison.runs[2].problem = "p" + hostile();
  const std::string page = page_of(comparison), expected = page_of(harmless);
  // The page has the elements that it has with harmless texts, and no more.
  for (const std::string_view part : {"<", ">", "<script", "</script", "<!--", "<img", "</style"}) {
    RC_ASSERT(count(page, part) == count(expected, part));
  }
  const Json data = data_of(page);
  RC_ASSERT(data["runs"][1]["strategy"] == comparison.runs[1].strategy);
  RC_ASSERT(data["runs"][2]["problem"] == comparison.runs[2].problem);
}

}  // namespace
}  // namespace thinwire::report
