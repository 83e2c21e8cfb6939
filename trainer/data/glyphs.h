// The shapes of the ten digits, as lines.
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

// One form of a digit, centred, one unit high, with y downwards. Curves and straight lines are
// divided into short strokes, so that the whole can be bent.
struct Glyph {
  int digit = 0;
  std::vector<Stroke> strokes;
};

// Returns all forms of `digit`, in a fixed order.
std::vector<Glyph> glyphs_of(int digit);

}  // namespace thinwire::trainer
