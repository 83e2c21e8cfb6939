// The ten digits as lines to be drawn with a pen.
#pragma once

#include <span>
#include <vector>

namespace thinwire::trainer {

struct Point {
  float x = 0, y = 0;
};

struct Stroke {
  Point from, to;
};

// One way of writing a digit, centred, one unit high, y downwards. Curves come as short strokes,
// straight lines are cut too, so that the whole can be bent.
struct Glyph {
  int digit = 0;
  std::vector<Stroke> strokes;
};

// Every way of writing `digit`, in a fixed order.
std::vector<Glyph> glyphs_of(int digit);

}  // namespace thinwire::trainer
