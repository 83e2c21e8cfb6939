#include "trainer/data/glyphs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>

namespace thinwire::trainer {
namespace {

constexpr float kStrokeLength = 0.12f;

// A straight line or a part of an ellipse. Angles are in degrees: 0 is right, 90 down, 180 left.
struct Piece {
  bool curved = false;
  Point a, b;  // ends of the line; centre and half axes of the ellipse
  float from_angle = 0, to_angle = 0;

  Point at(float t) const {
    if (!curved) return {a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)};
    const float angle =
        (from_angle + t * (to_angle - from_angle)) * std::numbers::pi_v<float> / 180.0f;
    return {a.x + b.x * std::cos(angle), a.y + b.y * std::sin(angle)};
  }

  float length() const {
    if (!curved) return std::hypot(b.x - a.x, b.y - a.y);
    return std::abs(to_angle - from_angle) / 180.0f * std::numbers::pi_v<float> *
           std::max(b.x, b.y);
  }
};

constexpr Piece line(Point from, Point to) { return {false, from, to, 0, 0}; }

constexpr Piece arc(Point centre, Point half_axes, float from_angle, float to_angle) {
  return {true, centre, half_axes, from_angle, to_angle};
}

// One way to write a digit.
struct Shape {
  int digit = 0;
  std::size_t count = 0;  // of the pieces that are used
  std::array<Piece, 3> pieces;
};

template <class... Pieces>
constexpr Shape shape(int digit, Pieces... pieces) {
  return {digit, sizeof...(Pieces), {pieces...}};
}

constexpr Shape kShapes[] = {
    shape(0, arc({0, 0}, {0.32f, 0.5f}, 0, 360)),
    shape(0, arc({0, 0}, {0.24f, 0.5f}, 0, 360)),
    shape(1, line({0, -0.5f}, {0, 0.5f})),
    shape(1, line({-0.2f, -0.28f}, {0.04f, -0.5f}), line({0.04f, -0.5f}, {0.04f, 0.5f})),
    shape(1, line({-0.2f, -0.3f}, {0, -0.5f}), line({0, -0.5f}, {0, 0.5f}),
          line({-0.22f, 0.5f}, {0.22f, 0.5f})),
    shape(2, arc({0, -0.22f}, {0.3f, 0.28f}, 190, 395), line({0.246f, -0.06f}, {-0.3f, 0.5f}),
          line({-0.3f, 0.5f}, {0.32f, 0.5f})),
    shape(2, arc({0, -0.24f}, {0.28f, 0.26f}, 180, 360),
          arc({-0.32f, -0.24f}, {0.6f, 0.74f}, 0, 88), line({-0.3f, 0.5f}, {0.3f, 0.46f})),
    shape(3, arc({-0.04f, -0.26f}, {0.28f, 0.24f}, 205, 450),
          arc({-0.04f, 0.24f}, {0.33f, 0.26f}, 270, 520)),
    shape(3, line({-0.28f, -0.5f}, {0.26f, -0.5f}), line({0.26f, -0.5f}, {-0.04f, -0.1f}),
          arc({-0.04f, 0.2f}, {0.32f, 0.3f}, 270, 510)),
    shape(4, line({0.12f, -0.5f}, {-0.34f, 0.16f}), line({-0.34f, 0.16f}, {0.34f, 0.16f}),
          line({0.12f, -0.5f}, {0.12f, 0.5f})),
    shape(4, line({-0.22f, -0.5f}, {-0.3f, 0.06f}), line({-0.3f, 0.06f}, {0.32f, 0.06f}),
          line({0.2f, -0.4f}, {0.14f, 0.5f})),
    shape(5, line({0.28f, -0.5f}, {-0.22f, -0.5f}), line({-0.22f, -0.5f}, {-0.265f, -0.026f}),
          arc({-0.02f, 0.18f}, {0.32f, 0.32f}, 220, 505)),
    shape(5, line({0.24f, -0.48f}, {-0.2f, -0.5f}), line({-0.2f, -0.5f}, {-0.22f, -0.1f}),
          arc({-0.2f, 0.2f}, {0.48f, 0.3f}, 270, 450)),
    shape(6, arc({0, 0.2f}, {0.3f, 0.3f}, 0, 360), arc({0.3f, 0.2f}, {0.6f, 0.7f}, 180, 255)),
    shape(6, arc({0, 0.24f}, {0.26f, 0.26f}, 0, 360), line({0.14f, -0.5f}, {-0.24f, 0.14f})),
    shape(7, line({-0.32f, -0.5f}, {0.32f, -0.5f}), line({0.32f, -0.5f}, {-0.08f, 0.5f})),
    shape(7, line({-0.32f, -0.5f}, {0.3f, -0.5f}), line({0.3f, -0.5f}, {-0.1f, 0.5f}),
          line({-0.14f, 0.02f}, {0.26f, 0.02f})),
    shape(7, line({-0.3f, -0.46f}, {0.3f, -0.5f}), arc({0.5f, 0.5f}, {0.54f, 1.08f}, 180, 248)),
    shape(8, arc({0, -0.25f}, {0.26f, 0.25f}, 0, 360), arc({0, 0.25f}, {0.31f, 0.25f}, 0, 360)),
    shape(8, arc({0, -0.28f}, {0.22f, 0.22f}, 0, 360), arc({0, 0.22f}, {0.26f, 0.28f}, 0, 360)),
    shape(9, arc({0, -0.2f}, {0.3f, 0.3f}, 0, 360), line({0.3f, -0.2f}, {0.2f, 0.5f})),
    shape(9, arc({0, -0.22f}, {0.28f, 0.28f}, 0, 360), arc({-0.32f, -0.22f}, {0.6f, 0.72f}, 0, 75)),
};

Glyph glyph(const Shape& written) {
  Glyph result{written.digit, {}};
  for (const Piece& piece : std::span(written.pieces).first(written.count)) {
    const int parts = std::max(1, static_cast<int>(std::ceil(piece.length() / kStrokeLength)));
    for (int part = 0; part < parts; ++part) {
      const auto at = [&](int k) {
        return piece.at(static_cast<float>(k) / static_cast<float>(parts));
      };
      result.strokes.push_back({at(part), at(part + 1)});
    }
  }
  return result;
}

}  // namespace

std::vector<Glyph> glyphs_of(int digit) {
  std::vector<Glyph> out;
  for (const Shape& each : kShapes) {
    if (each.digit == digit) out.push_back(glyph(each));
  }
  return out;
}

}  // namespace thinwire::trainer
