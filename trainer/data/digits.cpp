// Images of digits that are generated when they are loaded: 28 x 28 pixels, no download, the same
// for the same seed.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/random.h"
#include "thinwire/error.h"
#include "trainer/data/glyphs.h"
#include "trainer/data/images.h"

namespace thinwire::trainer {
namespace {

constexpr int kSide = 28;
constexpr int kDigits = 10;
constexpr std::size_t kTrainExamples = 12'000;
constexpr std::size_t kTestExamples = 2'000;
constexpr float kHeight = 19.0f;  // of an upright digit at scale 1, in pixels

// The squared distance of each pixel's centre to the nearest stroke, exact only for pixels near a
// stroke.
using Canvas = std::array<float, std::size_t{kSide} * kSide>;

// The random numbers of one example, in sequence.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t example) : seed_(seed), example_(example) {}

  std::uint32_t bits() {
    if (used_ == block_.size()) {
      block_ = base::philox(seed_, example_, blocks_++, base::Purpose::digits);
      used_ = 0;
    }
    return block_[used_++];
  }
  float between(float low, float high) { return low + (high - low) * base::unit_float(bits()); }

 private:
  std::uint64_t seed_, example_;
  std::uint64_t blocks_ = 0;
  std::array<std::uint32_t, 4> block_{};
  std::size_t used_ = block_.size();
};

// The random distortion of one example: bends the glyph, then shears, scales, rotates and moves it.
class Distortion {
 public:
  explicit Distortion(Draws& draws) {
    for (Wave& wave : waves_) {
      wave.amount = draws.between(-0.06f, 0.06f);
      wave.frequency = draws.between(2.0f, 6.0f);
      wave.phase = draws.between(0, 2 * std::numbers::pi_v<float>);
    }
    const float shear = draws.between(-0.3f, 0.3f);
    const float wide = draws.between(0.7f, 1.25f), high = draws.between(0.75f, 1.1f);
    const float turn = draws.between(-0.25f, 0.25f);
    const float cosine = std::cos(turn), sine = std::sin(turn);
    xx_ = kHeight * wide * cosine;
    xy_ = kHeight * (shear * wide * cosine - high * sine);
    yx_ = kHeight * wide * sine;
    yy_ = kHeight * (shear * wide * sine + high * cosine);
    centre_ = {kSide / 2.0f + draws.between(-3.0f, 3.0f),
               kSide / 2.0f + draws.between(-3.0f, 3.0f)};
  }

  Point place(Point p) const {
    const Point bent{p.x + waves_[0].at(p.y) + waves_[1].at(p.x),
                     p.y + waves_[2].at(p.x) + waves_[3].at(p.y)};
    return {centre_.x + xx_ * bent.x + xy_ * bent.y, centre_.y + yx_ * bent.x + yy_ * bent.y};
  }

 private:
  struct Wave {
    float amount = 0, frequency = 0, phase = 0;
    float at(float t) const { return amount * std::sin(frequency * t + phase); }
  };
  std::array<Wave, 4> waves_;
  float xx_, xy_, yx_, yy_;
  Point centre_;
};

// Updates the distances of the pixels within `reach` of the stroke, and possibly of some
// neighbours.
void draw(const Stroke& stroke, float reach, Canvas& canvas) {
  const Point from = stroke.from;
  const float dx = stroke.to.x - from.x, dy = stroke.to.y - from.y;
  const float inverse = 1.0f / std::max(dx * dx + dy * dy, 1e-12f);
  const auto first = [&](float a, float b) {
    return std::max(0, static_cast<int>(std::floor(std::min(a, b) - reach)));
  };
  const auto last = [&](float a, float b) {
    return std::min(kSide - 1, static_cast<int>(std::max(a, b) + reach));
  };
  const int bottom = last(from.y, stroke.to.y);
  const int left = first(from.x, stroke.to.x), right = last(from.x, stroke.to.x);
  for (int y = first(from.y, stroke.to.y); y <= bottom; ++y) {
    float* row = canvas.data() + std::ptrdiff_t{y} * kSide;
    const float py = static_cast<float>(y) + 0.5f - from.y;
    for (int x = left; x <= right; ++x) {
      const float px = static_cast<float>(x) + 0.5f - from.x;
      const float along = std::clamp((px * dx + py * dy) * inverse, 0.0f, 1.0f);
      const float ex = px - along * dx, ey = py - along * dy;
      row[x] = std::min(row[x], ex * ex + ey * ey);
    }
  }
}

void draw_example(const std::vector<Glyph>& ways, Draws& draws, std::uint8_t* pixels) {
  const Glyph& glyph = ways[draws.bits() % ways.size()];
  const Distortion distortion(draws);
  const float radius = draws.between(0.7f, 1.7f);
  const float darkness = draws.between(0.6f, 1.0f);
  const float noise = draws.between(0.05f, 0.25f);
  const float reach = radius + 0.5f;
  Canvas canvas;
  canvas.fill(reach * reach);
  for (const Stroke& stroke : glyph.strokes) {
    draw({distortion.place(stroke.from), distortion.place(stroke.to)}, reach, canvas);
  }
  for (const float distance2 : canvas) {
    // The edge of a stroke is one pixel wide.
    const float ink = std::min(1.0f, reach - std::sqrt(distance2));
    // The noise is the sum of two uniform numbers: a triangular distribution, which is close to a
    // normal one.
    const std::uint32_t bits = draws.bits();
    const float grain =
        static_cast<float>((bits & 0xffffu) + (bits >> 16)) * (1.0f / 65536.0f) - 1.0f;
    // The range from 0 to 1 is divided into 256 equal steps.
    *pixels++ = static_cast<std::uint8_t>(255.999f *
                                          std::clamp(darkness * ink + noise * grain, 0.0f, 1.0f));
  }
}

// The training set and the test set use different random streams, which the upper half of the
// example number distinguishes.
std::unique_ptr<Dataset> make_digits(std::uint64_t seed, std::uint64_t stream, std::size_t count) {
  std::array<std::vector<Glyph>, kDigits> ways;
  for (int digit = 0; digit < kDigits; ++digit) {
    ways[static_cast<std::size_t>(digit)] = glyphs_of(digit);
  }
  ImageSet set;
  set.shape.channels = 1;
  set.shape.height = set.shape.width = kSide;
  set.shape.classes = kDigits;
  set.normalization = {{0.123f, 0.244f}};
  set.pixels.resize(count * set.shape.floats());
  set.labels.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t digit = i % kDigits;
    Draws draws(seed, stream << 32 | i);
    draw_example(ways[digit], draws, set.pixels.data() + i * set.shape.floats());
    set.labels[i] = static_cast<std::uint8_t>(digit);
  }
  return make_images(std::move(set));
}

}  // namespace

DataPair load_digits(const std::string& argument, std::uint64_t seed) {
  if (!argument.empty()) {
    throw ConfigError("data 'digits:" + argument +
                      "': digits are generated and take no argument; write 'digits'");
  }
  return {make_digits(seed, 0, kTrainExamples), make_digits(seed, 1, kTestExamples)};
}

}  // namespace thinwire::trainer
