#include "kernel/power_reference.h"

#include <algorithm>

namespace thinwire::kernel::reference {

float total(const float (&sums)[kPartialSums]) {
  float quarters[4];
  for (std::size_t l = 0; l < 4; ++l) quarters[l] = sums[l] + sums[l + 4];
  return (quarters[0] + quarters[2]) + (quarters[1] + quarters[3]);
}

void project(const LowRankShape& shape, Floats error, MutFloats gradient, Floats q, MutFloats p) {
  for (std::size_t i = 0; i < shape.numel(); ++i) gradient[i] += error[i];
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t k = 0; k < shape.rank; ++k) {
      float sums[kPartialSums] = {};
      for (std::size_t column = 0; column < shape.columns; ++column) {
        sums[column % kPartialSums] +=
            gradient[row * shape.columns + column] * q[k * shape.columns + column];
      }
      p[k * shape.rows + row] = total(sums);
    }
  }
}

void project_back(const LowRankShape& shape, Floats matrix, Floats p, MutFloats q) {
  std::fill(q.begin(), q.end(), 0.0f);
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t k = 0; k < shape.rank; ++k) {
      for (std::size_t column = 0; column < shape.columns; ++column) {
        q[k * shape.columns + column] +=
            p[k * shape.rows + row] * matrix[row * shape.columns + column];
      }
    }
  }
}

float low_rank_at(const LowRankShape& shape, Floats p, Floats q, std::size_t row,
                  std::size_t column) {
  float sum = 0;
  for (std::size_t k = 0; k < shape.rank; ++k) {
    sum += p[k * shape.rows + row] * q[k * shape.columns + column];
  }
  return sum;
}

void reconstruct(const LowRankShape& shape, Floats p, Floats own, Floats mean, MutFloats matrix,
                 MutFloats error) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t column = 0; column < shape.columns; ++column) {
      const std::size_t i = row * shape.columns + column;
      error[i] = matrix[i] - low_rank_at(shape, p, own, row, column);
      matrix[i] = low_rank_at(shape, p, mean, row, column);
    }
  }
}

}  // namespace thinwire::kernel::reference
