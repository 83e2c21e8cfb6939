// The template language of the report page.
#include "report/html_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "testing/expect.h"

namespace thinwire::report {
namespace {

using Json = nlohmann::json;

TEST(HtmlTemplate, ReplacesNames) {
  const Json values = {{"name", "gtopk"}, {"count", 3}};
  EXPECT_EQ(fill_template("no tags", values), "no tags");
  EXPECT_EQ(fill_template("<b>{{name}}</b> {{count}} { }}", values), "<b>gtopk</b> 3 { }}");
}

TEST(HtmlTemplate, EscapesUnlessToldNotTo) {
  const Json values = {{"text", "<a href=\"x\">'&'</a>"}};
  EXPECT_EQ(fill_template("{{text}}", values),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(fill_template("{{{text}}}", values), "<a href=\"x\">'&'</a>");
}

TEST(HtmlTemplate, NeverReadsValuesAsTemplates) {
  const Json values = {{"text", "{{secret}} {{{secret}}} {{/list}}"},
                       {"secret", "password"},
                       {"list", {"{{text}}"}}};
  EXPECT_EQ(fill_template("{{text}}", values), "{{secret}} {{{secret}}} {{/list}}");
  EXPECT_EQ(fill_template("{{#list}}{{.}}{{/list}}", values), "{{text}}");
}

TEST(HtmlTemplate, RepeatsSectionsForEachElement) {
  const Json values = {{"word", "outside"},
                       {"none", Json::array()},
                       {"runs", {{{"name", "a"}, {"cells", {1, 2}}}, {{"name", "b"}}}}};
  EXPECT_EQ(fill_template("{{#runs}}\n{{name}} {{word}}\n{{/runs}}\n.", values),
            "a outside\nb outside\n.");
  EXPECT_EQ(fill_template("{{#none}}{{.}}{{/none}}{{^none}}nothing{{/none}}", values), "nothing");
}

TEST(HtmlTemplate, ShowsOrLeavesOutSections) {
  const Json values = {
      {"yes", true}, {"no", false}, {"empty", ""}, {"null", nullptr}, {"object", {{"inner", 1}}}};
  EXPECT_EQ(fill_template("{{#yes}}1{{/yes}}{{^yes}}2{{/yes}}", values), "1");
  for (const char* const text : {"{{#no}}1{{/no}}{{^no}}2{{/no}}", "{{^empty}}2{{/empty}}",
                                 "{{#null}}1{{/null}}{{^null}}2{{/null}}"}) {
    EXPECT_EQ(fill_template(text, values), "2") << text;
  }
  EXPECT_EQ(fill_template("{{#object}}{{inner}}{{/object}}", values), "1");
}

TEST(HtmlTemplate, RefusesMistakes) {
  const Json values = {{"list", {1}}};
  const auto refusal = [&](const char* text) {
    return std::string(
        test::must_throw<std::logic_error>([&] { fill_template(text, values); }).what());
  };
  EXPECT_TRUE(test::has(refusal("{{title}}"), "unknown name (title)"));
  EXPECT_TRUE(test::has(refusal("{{#list}}{{.}}"), "missing end tag ({{/list}})"));
  EXPECT_TRUE(test::has(refusal("{{list"), "missing end tag (}})"));
}

}  // namespace
}  // namespace thinwire::report
