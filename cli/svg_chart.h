// Charts as SVG, to stand inside an HTML page whose style sheet (report/style.css) gives them their
// colours.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/axis.h"

namespace thinwire::cli {

// The class of a series in the style sheet. The first, of what others are measured against, has a
// colour of its own; those beyond the last colour begin anew with the second, dashed.
std::string series_class(int series);

// How a value is written at a tick, with its unit.
using ValueText = std::function<std::string(double)>;

struct ChartText {
  std::string id;           // of the page's element; unique on it
  std::string title;        // what a screen reader says first
  std::string description;  // and then
};

struct ChartPoint {
  double x = 0, y = 0;
  std::string tip;  // shown when pointed at
};

struct ChartLine {
  std::string label;
  int series = 0;
  std::vector<ChartPoint> points;
};

struct LineChart {
  ChartText text;
  std::string x_label, y_label;
  Axis x, y;
  ValueText x_text, y_text;
  std::vector<ChartLine> lines;
  std::optional<double> mark;  // a value of y that gets a line across
};

struct BarPart {
  std::string css_class;
  double value = 0;
  std::string tip;
};

struct BarRow {
  std::string label;
  std::vector<BarPart> parts;  // one after the other
  std::string value;           // written at the end
};

// Lying bars, one row each, from the low end of the axis.
struct BarChart {
  ChartText text;
  std::string x_label;
  Axis x;
  ValueText x_text;
  std::vector<BarRow> rows;
};

// In units of CSS pixels; letters keep their size whatever the width.
std::string draw(const LineChart& chart, double width);
std::string draw(const BarChart& chart, double width);

// A label: its left end, its middle line, its width.
struct LabelBox {
  double x = 0, y = 0, width = 0;
};
struct Spot {
  double x = 0, y = 0;
};
// Where labels stand that should be at `wanted`: moved right, up or down so that none covers
// another, not far, and over few of the spots, where lines are. None crosses `right`, nor, if it
// moves, `top` or `bottom`.
std::vector<LabelBox> keep_apart(const std::vector<LabelBox>& wanted,
                                 const std::vector<Spot>& lines, double top, double bottom,
                                 double right);

inline constexpr double kLabelHeight = 14;

}  // namespace thinwire::cli
