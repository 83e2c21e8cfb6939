#include "kernel/orthonormal.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace thinwire::kernel {
namespace {

// How many independent partial sums a dot product has: with one, each addition would wait for the
// one before.
constexpr std::size_t kSums = 8;

template <class A, class B>
double dot(std::span<const A> a, std::span<const B> b) {
  double sums[kSums] = {};
  const std::size_t whole = a.size() / kSums * kSums;
  for (std::size_t i = 0; i < whole; i += kSums) {
    for (std::size_t s = 0; s < kSums; ++s) {
      sums[s] += static_cast<double>(a[i + s]) * static_cast<double>(b[i + s]);
    }
  }
  for (std::size_t i = whole; i < a.size(); ++i) {
    sums[i - whole] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// Fills `out` with numbers that are uniform in [-1, 1).
template <class Float>
void draw(const Draw& from, std::span<Float> out) {
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const auto block =
        base::philox(from.seed, from.step, from.element + i / 4, base::Purpose::power);
    for (std::size_t j = 0; j < std::min<std::size_t>(4, out.size() - i); ++j) {
      out[i + j] = 2 * base::unit_float(block[j]) - 1;
    }
  }
}

using Doubles = std::span<const double>;

// Subtracts the projection of `vector` on the span of `basis` and scales it to norm 1
// (Gram-Schmidt). Returns false if what remains is no more than rounding errors.
bool extend(Doubles basis, std::span<double> vector) {
  constexpr double kRounding = 0x1.0p-20;  // sixteen times the rounding error of a float
  const double before = std::sqrt(dot(Doubles(vector), Doubles(vector)));
  for (int pass = 0; pass < 2; ++pass) {  // the second removes the rounding errors of the first
    for (std::size_t at = 0; at < basis.size(); at += vector.size()) {
      const Doubles other = basis.subspan(at, vector.size());
      const double along = dot(Doubles(vector), other);
      for (std::size_t i = 0; i < vector.size(); ++i) vector[i] -= along * other[i];
    }
  }
  const double after = std::sqrt(dot(Doubles(vector), Doubles(vector)));
  if (!(after > kRounding * before) || !std::isfinite(before)) return false;
  for (double& value : vector) value /= after;
  return true;
}

}  // namespace

double squared_norm(Floats values) { return dot(values, values); }

std::size_t orthonormalize(MutFloats vectors, std::size_t length, const Draw& spare,
                           std::span<double> scratch) {
  const std::span<double> all = scratch.first(vectors.size());
  std::copy(vectors.begin(), vectors.end(), all.begin());
  std::size_t replaced = 0;
  for (std::size_t at = 0; at < all.size(); at += length) {
    const std::span<double> vector = all.subspan(at, length);
    if (extend(all.first(at), vector)) continue;
    ++replaced;
    draw({spare.seed, spare.step, spare.element + at}, vector);
    // A random vector is practically never in the span of fewer vectors than it has elements. If it
    // is, a vector of zeros does no harm.
    if (!extend(all.first(at), vector)) std::fill(vector.begin(), vector.end(), 0.0);
  }
  for (std::size_t i = 0; i < all.size(); ++i) vectors[i] = static_cast<float>(all[i]);
  return replaced;
}

void rescale(MutFloats vectors, std::size_t length, const Draw& spare) {
  for (std::size_t at = 0; at < vectors.size(); at += length) {
    const MutFloats vector = vectors.subspan(at, length);
    double squares = squared_norm(vector);
    if (!(squares > 0) || !std::isfinite(squares)) {
      draw({spare.seed, spare.step, spare.element + at}, vector);
      squares = squared_norm(vector);
    }
    int exponent = 0;
    std::frexp(squares, &exponent);
    const double factor = std::ldexp(1.0, -exponent / 2);
    for (float& value : vector) value = static_cast<float>(static_cast<double>(value) * factor);
  }
}

}  // namespace thinwire::kernel
