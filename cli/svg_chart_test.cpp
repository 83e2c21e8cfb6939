#include "cli/svg_chart.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/expect.h"

namespace thinwire::cli {
namespace {

std::vector<Axis> axes_for(double low, double high) {
  return {Axis::linear(low, high), Axis::logarithmic(low, high),
          Axis::fitting(std::vector<double>{low, high}),
          Axis::of_accuracy(std::vector<double>{low / (1 + high), high / (1 + high)})};
}

RC_GTEST_PROP(Axis, KeepsOrderAndHoldsItsValues, ()) {
  const double low = std::pow(10, *rc::gen::inRange(-6, 10));
  const double high = low * (1 + *rc::gen::inRange(0, 100000) / 10.0);
  for (const Axis& axis : axes_for(low, high)) {
    RC_ASSERT(axis.ticks().size() >= 2u);
    RC_ASSERT(std::ranges::is_sorted(axis.ticks()));
    RC_ASSERT(std::ranges::adjacent_find(axis.ticks()) == axis.ticks().end());
    RC_ASSERT(axis.place(axis.low()) == 0.0);
    RC_ASSERT(axis.place(axis.high()) == 1.0);
    double before = 0;
    for (int i = 0; i <= 20; ++i) {
      const double value = axis.low() + (axis.high() - axis.low()) * i / 20;
      RC_ASSERT(axis.place(value) >= before);
      before = axis.place(value);
      RC_ASSERT(before <= 1.0);
    }
  }
  for (const Axis& axis : {Axis::linear(low, high), Axis::logarithmic(low, high)}) {
    RC_ASSERT(axis.low() <= low * (1 + 1e-6));
    RC_ASSERT(axis.high() >= high * (1 - 1e-6));
  }
}

TEST(Axis, TicksAreRound) {
  EXPECT_EQ(Axis::linear(0, 9.3).ticks(), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(Axis::logarithmic(3, 40).ticks(), (std::vector<double>{2, 5, 10, 20, 50}));
  EXPECT_EQ(Axis::logarithmic(3, 4000).ticks(), (std::vector<double>{2, 10, 100, 1000, 5000}));
  EXPECT_EQ(Axis::of_accuracy(std::vector<double>{0.6, 0.985}).ticks(),
            (std::vector<double>{0.5, 0.8, 0.9, 0.95, 0.98, 0.99}));
}

TEST(Axis, IsLogarithmicWhereRangesNeedIt) {
  EXPECT_TRUE(Axis::fitting(std::vector<double>{1, 20}).is_linear());
  EXPECT_FALSE(Axis::fitting(std::vector<double>{1, 100}).is_linear());
  EXPECT_TRUE(Axis::fitting(std::vector<double>{0, 100}).is_linear());
  EXPECT_EQ(Axis::fitting(std::vector<double>{0, 1, 100}).low(), 1) << "0 has no logarithm";
}

TEST(Axis, OddValuesHaveAPlace) {
  for (const Axis& axis : {Axis::linear(0, 0), Axis::fitting({}), Axis::logarithmic(0, 0),
                           Axis::of_accuracy(std::vector<double>{1.0})}) {
    for (const double value : {0.0, -1.0, 1e300, std::nan(""), 1.0}) {
      EXPECT_GE(axis.place(value), 0);
      EXPECT_LE(axis.place(value), 1);
    }
  }
}

RC_GTEST_PROP(Labels, NoneCoversAnother, ()) {
  std::vector<LabelBox> wanted;
  for (int i = 0, count = *rc::gen::inRange(1, 12); i < count; ++i) {
    wanted.push_back({static_cast<double>(*rc::gen::inRange(0, 300)),
                      static_cast<double>(*rc::gen::inRange(0, 400)), 60});
  }
  const std::vector<LabelBox> placed = keep_apart(wanted, {{100, 100}, {110, 110}}, 0, 400, 600);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    RC_ASSERT(placed[i].x + 60 <= 600);
    for (std::size_t j = 0; j < i; ++j) {
      const bool beside = std::abs(placed[i].x - placed[j].x) >= 60;
      RC_ASSERT(beside || std::abs(placed[i].y - placed[j].y) >= kLabelHeight - 1e-6);
    }
  }
}

TEST(Labels, StandBesideALineRatherThanOnIt) {
  std::vector<Spot> line;
  for (double x = 0; x < 100; x += 6) line.push_back({x, 50});
  const LabelBox placed = keep_apart({{10, 50, 40}}, line, 0, 100, 200).front();
  EXPECT_EQ(placed.x, 10);
  EXPECT_EQ(std::abs(placed.y - 50), kLabelHeight / 2);
}

LineChart chart_named(const std::string& label) {
  const ValueText plain = [](double value) { return std::to_string(value); };
  return {{"id", "Title", "What it shows"},
          "seconds",
          "accuracy",
          Axis::linear(0, 1),
          Axis::linear(0, 1),
          plain,
          plain,
          {{label, 0, {{0, 0, "first"}, {1, 1, "last"}}}},
          0.5};
}

TEST(Chart, HasTitleDescriptionAndValues) {
  const std::string svg = draw(chart_named("dense"), 620);
  for (const std::string_view part :
       {"<title id=\"id-620-t\">Title</title>", "role=\"img\"", "What it shows", ">seconds<",
        ">accuracy<", "<title>last</title>", ">dense</text>", "class=\"mark\""}) {
    EXPECT_TRUE(has(svg, part));
  }
}

TEST(Chart, OnlyTheBaselineHasItsColour) {
  EXPECT_EQ(series_class(0), "s0");
  EXPECT_EQ(series_class(8), "s8");
  EXPECT_EQ(series_class(9), "s1 dash");
}

TEST(Chart, ShortensNamesThatDoNotFit) {
  const std::string name = "gtopk:density=0.01,momentum=plain,shape=tree,values=fp32";
  const BarChart chart{{"id", "Title", "What it shows"},
                       "bytes",
                       Axis::linear(0, 1),
                       [](double value) { return std::to_string(value); },
                       {{name, {{"s1", 1, name}}, "1 B"}}};
  const std::string svg = draw(chart, 340);
  EXPECT_TRUE(has(svg, "…</text>"));
  EXPECT_TRUE(has(svg, "<title>" + name + "</title>"));
  EXPECT_EQ(svg.find(name + "</text>"), std::string::npos);
}

TEST(Chart, EscapesWhatItIsGiven) {
  for (const double width : {340.0, 620.0}) {
    const std::string svg = draw(chart_named("<script>\"'&"), width);
    EXPECT_EQ(svg.find("<script>"), std::string::npos);
    EXPECT_TRUE(has(svg, "data-series=\"&lt;script&gt;&quot;&#39;&amp;\""));
  }
}

}  // namespace
}  // namespace thinwire::cli
