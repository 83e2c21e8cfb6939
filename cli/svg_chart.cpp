#include "cli/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "cli/html.h"

namespace thinwire::cli {
namespace {

constexpr double kNarrow = 500;       // below, labels beside lines have no room
constexpr double kLetterWidth = 7.3;  // at 12 px, on average and a little more

double text_width(std::string_view text) { return kLetterWidth * static_cast<double>(text.size()); }

// As much of a name as there is room for.
std::string shortened(const std::string& text, double room) {
  const auto letters = static_cast<std::size_t>(std::max(1.0, room / kLetterWidth));
  return text.size() <= letters ? text : text.substr(0, letters - 1) + "…";
}

// Where values are drawn, in pixels of the whole picture.
struct Plot {
  double left, top, right, bottom;

  double x(const Axis& axis, double value) const {
    return left + axis.place(value) * (right - left);
  }
  double y(const Axis& axis, double value) const {
    return bottom - axis.place(value) * (bottom - top);
  }
};

std::string opening(const ChartText& text, double width, double height) {
  const std::string id = fmt::format("{}-{:.0f}", text.id, width);
  return fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
      "aria-labelledby=\"{2}-t {2}-d\"><title id=\"{2}-t\">{3}</title><desc "
      "id=\"{2}-d\">{4}</desc>\n",
      width, height, id, html_escaped(text.title), html_escaped(text.description));
}

std::string words(double x, double y, std::string_view css_class, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, css_class,
                     html_escaped(text));
}

std::string segment(double x1, double y1, double x2, double y2, std::string_view css_class) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2,
      y2, css_class);
}

// Ticks along the bottom, of which those are named that do not run into their neighbours.
std::string bottom_axis(const Plot& plot, const Axis& axis, const ValueText& text,
                        const std::string& label) {
  std::string out;
  double free_from = -1e9;
  for (const double tick : axis.ticks()) {
    const double x = plot.x(axis, tick);
    const std::string name = text(tick);
    out += segment(x, plot.top, x, plot.bottom, "grid");
    if (x - text_width(name) / 2 < free_from) continue;
    out += words(x, plot.bottom + 17, "tick mid", name);
    free_from = x + text_width(name) / 2 + 6;
  }
  return out + words((plot.left + plot.right) / 2, plot.bottom + 36, "axis mid", label);
}

std::string left_axis(const Plot& plot, const LineChart& chart) {
  std::string out;
  for (const double tick : chart.y.ticks()) {
    const double y = plot.y(chart.y, tick);
    out += segment(plot.left, y, plot.right, y, "grid");
    out += words(plot.left - 7, y + 4, "tick end", chart.y_text(tick));
  }
  return out + words(0, plot.top - 12, "axis", chart.y_label);
}

std::string path(const ChartLine& line, const LineChart& chart, const Plot& plot) {
  std::string points, dots;
  for (const ChartPoint& point : line.points) {
    const double x = plot.x(chart.x, point.x), y = plot.y(chart.y, point.y);
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    if (point.tip.empty()) continue;
    dots += fmt::format(
        "<g class=\"hit\"><circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"9\" class=\"area\"/><circle "
        "cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"2.6\"/><title>{2}</title></g>\n",
        x, y, html_escaped(point.tip));
  }
  return fmt::format("<polyline points=\"{}\"/>\n{}", points, dots);
}

bool collide(const LabelBox& a, const LabelBox& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && std::abs(a.y - b.y) < kLabelHeight - 1e-9;
}

bool covers(const LabelBox& box, const Spot& spot) {
  return box.x < spot.x && spot.x < box.x + box.width &&
         std::abs(spot.y - box.y) < kLabelHeight / 2;
}

// Along all lines, close enough together that no label fits between two of them unnoticed.
std::vector<Spot> spots_on_lines(const LineChart& chart, const Plot& plot) {
  constexpr double kDistance = 6;
  std::vector<Spot> spots;
  for (const ChartLine& line : chart.lines) {
    for (std::size_t i = 1; i < line.points.size(); ++i) {
      const Spot from{plot.x(chart.x, line.points[i - 1].x), plot.y(chart.y, line.points[i - 1].y)};
      const Spot to{plot.x(chart.x, line.points[i].x), plot.y(chart.y, line.points[i].y)};
      const double parts = std::ceil(std::hypot(to.x - from.x, to.y - from.y) / kDistance);
      for (double part = 0; part < parts; ++part) {
        const double share = part / parts;
        spots.push_back({from.x + share * (to.x - from.x), from.y + share * (to.y - from.y)});
      }
    }
  }
  return spots;
}

// Names at the ends of the lines, with a thread to the end where they had to move away.
std::string end_labels(const LineChart& chart, const Plot& plot, double width) {
  constexpr double kGap = 8;
  std::vector<LabelBox> wanted;
  for (const ChartLine& line : chart.lines) {
    const double room = text_width(line.label);
    const double x = plot.x(chart.x, line.points.back().x) + kGap;
    wanted.push_back({std::min(x, width - room), plot.y(chart.y, line.points.back().y), room});
  }
  const std::vector<LabelBox> boxes =
      keep_apart(wanted, spots_on_lines(chart, plot), plot.top, plot.bottom, width);
  std::string out;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const ChartLine& line = chart.lines[i];
    const double x = plot.x(chart.x, line.points.back().x);
    out += fmt::format("<g class=\"series {}\" data-series=\"{}\">", series_class(line.series),
                       html_escaped(line.label));
    if (std::hypot(boxes[i].x - wanted[i].x, boxes[i].y - wanted[i].y) > kLabelHeight) {
      out += segment(x + 3, wanted[i].y, boxes[i].x - 2, boxes[i].y, "thread");
    }
    out += words(boxes[i].x, boxes[i].y + 4, "name", line.label) + "</g>\n";
  }
  return out;
}

// Where a label might go, from where it should be.
std::vector<Spot> shifts() {
  constexpr int kSteps = 22;
  std::vector<Spot> out;
  for (int x = 0; x <= kSteps; ++x) {
    for (int y = -kSteps; y <= kSteps; ++y) out.push_back({8.0 * x, kLabelHeight / 2 * y});
  }
  return out;
}

}  // namespace

std::string series_class(int series) {
  constexpr int kColours = 8;  // s1 ... s8, besides s0
  if (series == 0) return "s0";
  return fmt::format("s{}{}", 1 + (series - 1) % kColours, series > kColours ? " dash" : "");
}

std::vector<LabelBox> keep_apart(const std::vector<LabelBox>& wanted,
                                 const std::vector<Spot>& lines, double top, double bottom,
                                 double right) {
  constexpr double kCover = 8;  // one covered spot is as bad as so many pixels of distance
  const std::vector<Spot> tries = shifts();
  std::vector<LabelBox> placed;
  for (const LabelBox& box : wanted) {
    LabelBox best = box;
    double least = std::numeric_limits<double>::max();
    for (const Spot& shift : tries) {
      const LabelBox moved{box.x + shift.x, box.y + shift.y, box.width};
      const bool outside = (shift.x > 0 && moved.x + moved.width > right) ||
                           (shift.y != 0 && (moved.y < top || moved.y > bottom));
      double cost = std::hypot(shift.x, shift.y);
      if (outside || cost >= least) continue;
      if (std::ranges::any_of(placed, std::bind_front(collide, moved))) continue;
      const auto covered = std::ranges::count_if(lines, std::bind_front(covers, moved));
      cost += kCover * static_cast<double>(covered);
      if (cost >= least) continue;
      least = cost;
      best = moved;
    }
    placed.push_back(best);
  }
  return placed;
}

std::string draw(const LineChart& chart, double width) {
  const bool labelled = width >= kNarrow;
  double label_room = 22;  // also for half of the last tick
  for (const ChartLine& line : chart.lines) {
    if (labelled) label_room = std::max(label_room, text_width(line.label) + 12);
  }
  const double height = labelled ? 400 : 320;
  const Plot plot{54, 34, width - std::min(label_room, width / 3), height - 46};
  std::string out = opening(chart.text, width, height);
  out += bottom_axis(plot, chart.x, chart.x_text, chart.x_label) + left_axis(plot, chart);
  if (chart.mark) {
    const double y = plot.y(chart.y, *chart.mark);
    out += segment(plot.left, y, plot.right, y, "mark");
    out += words(plot.left + 6, y - 5, "mark", "target " + chart.y_text(*chart.mark));
  }
  for (const ChartLine& line : chart.lines) {
    out +=
        fmt::format("<g class=\"series {}\" data-series=\"{}\">{}</g>\n", series_class(line.series),
                    html_escaped(line.label), path(line, chart, plot));
  }
  if (labelled) out += end_labels(chart, plot, width);
  return out + "</svg>\n";
}

std::string draw(const BarChart& chart, double width) {
  constexpr double kRowHeight = 26, kBarHeight = 16;
  double label_room = 0, value_room = 0;
  for (const BarRow& row : chart.rows) {
    label_room = std::max(label_room, text_width(row.label));
    value_room = std::max(value_room, text_width(row.value));
  }
  label_room = std::min(label_room, 0.42 * width);
  const double height = 8 + kRowHeight * static_cast<double>(chart.rows.size()) + 46;
  const Plot plot{label_room + 10, 8, width - value_room - 12, height - 46};
  std::string out =
      opening(chart.text, width, height) + bottom_axis(plot, chart.x, chart.x_text, chart.x_label);
  for (std::size_t i = 0; i < chart.rows.size(); ++i) {
    const BarRow& row = chart.rows[i];
    const double top = plot.top + kRowHeight * static_cast<double>(i) + 5;
    out += words(plot.left - 8, top + 12, "tick end", shortened(row.label, label_room));
    double sum = 0, x = plot.left;
    for (const BarPart& part : row.parts) {
      sum += part.value;
      const double end = plot.x(chart.x, sum);
      out += fmt::format(
          "<g class=\"hit\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" "
          "class=\"{}\"/><title>{}</title></g>\n",
          x, top, std::max(0.0, end - x), kBarHeight, part.css_class, html_escaped(part.tip));
      x = end;
    }
    out += words(x + 6, top + 12, "value", row.value);
  }
  return out + "</svg>\n";
}

}  // namespace thinwire::cli
