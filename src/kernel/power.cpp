#include "kernel/power.h"

#include <algorithm>

#include "kernel/power_reference.h"

#ifndef THINWIRE_KERNEL_POWER_TILES  // once, not for each CPU target
#define THINWIRE_KERNEL_POWER_TILES
namespace thinwire::kernel {

using reference::kPartialSums;

// How many rows are processed together. They share each load of Q, so that Q is read from the cache
// a quarter as often.
constexpr std::size_t kRowsAtOnce = 4;
// How many columns of these rows stay in the first-level cache while all vectors of Q are used.
constexpr std::size_t kTileColumns = 1024;
// How many floats of Q stay there while all rows are processed.
constexpr std::size_t kPackedFloats = 4096;

// The partial sums of kRowsAtOnce rows with all vectors of Q.
using RowSums = float[kRowsAtOnce][kMostRank][kPartialSums];
// The elements of P for kRowsAtOnce rows. They are copied, because the compiler must assume that a
// store to other floats changes the original.
using RowWeights = float[kMostRank][kRowsAtOnce];

}  // namespace thinwire::kernel
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "power.cpp"
#include <hwy/foreach_target.h>  // compiles the code below once for each CPU target
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernel::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A dot product has 8 partial sums on every CPU: in one register, or in several narrow ones.
using FloatTag = hn::CappedTag<float, kPartialSums>;
using FloatVector = hn::Vec<FloatTag>;
constexpr FloatTag kFloats;
constexpr std::size_t kLanes = hn::MaxLanes(kFloats);
constexpr std::size_t kParts = kPartialSums / kLanes;

// Adds `count` elements of the error to the gradient.
HWY_INLINE void add(const float* error, float* gradient, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const FloatVector sum =
        hn::Add(hn::LoadU(kFloats, gradient + i), hn::LoadU(kFloats, error + i));
    hn::StoreU(sum, kFloats, gradient + i);
  }
  for (; i < count; ++i) gradient[i] += error[i];
}

// Adds `count` columns of the products of kRows rows with kVectors vectors of Q, from vector k on.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_products(const float* matrix, const float* q, std::size_t stride,
                             std::size_t count, std::size_t k, RowSums& sums) {
  FloatVector held[kRows][kVectors][kParts];
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      for (std::size_t part = 0; part < kParts; ++part) {
        held[row][v][part] = hn::LoadU(kFloats, sums[row][k + v] + part * kLanes);
      }
    }
  }
  std::size_t j = 0;
  for (; j + kPartialSums <= count; j += kPartialSums) {
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t at = j + part * kLanes;
      for (std::size_t v = 0; v < kVectors; ++v) {
        const FloatVector factor = hn::LoadU(kFloats, q + (k + v) * stride + at);
        for (std::size_t row = 0; row < kRows; ++row) {
          const FloatVector entry = hn::LoadU(kFloats, matrix + row * stride + at);
          held[row][v][part] = hn::Add(held[row][v][part], hn::Mul(entry, factor));
        }
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      float* const all = sums[row][k + v];
      for (std::size_t part = 0; part < kParts; ++part) {
        hn::StoreU(held[row][v][part], kFloats, all + part * kLanes);
      }
      for (std::size_t tail = j; tail < count; ++tail) {
        all[tail % kPartialSums] += matrix[row * stride + tail] * q[(k + v) * stride + tail];
      }
    }
  }
}

template <std::size_t kRows>
HWY_INLINE void project_rows(const LowRankShape& shape, std::size_t first, const float* error,
                             float* gradient, const float* q, float* p) {
  RowSums sums;
  for (auto& row : sums) std::fill_n(&row[0][0], shape.rank * kPartialSums, 0.0f);
  for (std::size_t begin = 0; begin < shape.columns; begin += kTileColumns) {
    const std::size_t count = std::min(kTileColumns, shape.columns - begin);
    const std::size_t corner = first * shape.columns + begin;
    for (std::size_t row = 0; row < kRows; ++row) {
      const std::size_t at = corner + row * shape.columns;
      add(error + at, gradient + at, count);
    }
    std::size_t k = 0;
    for (; k + 2 <= shape.rank; k += 2) {
      add_products<kRows, 2>(gradient + corner, q + begin, shape.columns, count, k, sums);
    }
    if (k < shape.rank) {
      add_products<kRows, 1>(gradient + corner, q + begin, shape.columns, count, k, sums);
    }
  }
  for (std::size_t k = 0; k < shape.rank; ++k) {
    for (std::size_t row = 0; row < kRows; ++row) {
      p[k * shape.rows + first + row] = reference::total(sums[row][k]);
    }
  }
}

void project(const LowRankShape& shape, Floats error, MutFloats gradient, Floats q, MutFloats p) {
  std::size_t row = 0;
  for (; row + kRowsAtOnce <= shape.rows; row += kRowsAtOnce) {
    project_rows<kRowsAtOnce>(shape, row, error.data(), gradient.data(), q.data(), p.data());
  }
  for (; row < shape.rows; ++row) {
    project_rows<1>(shape, row, error.data(), gradient.data(), q.data(), p.data());
  }
}

// Adds `count` columns of kRows rows to one vector of Q.
template <std::size_t kRows>
HWY_INLINE void add_rows(const float* rows, std::size_t stride, const float* p, std::size_t count,
                         float* q) {
  float weights[kRows];  // a copy: a store to q cannot change it
  std::copy_n(p, kRows, weights);
  std::size_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    FloatVector sum = hn::LoadU(kFloats, q + j);
    for (std::size_t row = 0; row < kRows; ++row) {
      const FloatVector entries = hn::LoadU(kFloats, rows + row * stride + j);
      sum = hn::Add(sum, hn::Mul(hn::Set(kFloats, weights[row]), entries));
    }
    hn::StoreU(sum, kFloats, q + j);
  }
  for (; j < count; ++j) {
    for (std::size_t row = 0; row < kRows; ++row) q[j] += weights[row] * rows[row * stride + j];
  }
}

// Adds `count` columns of kRows rows to all vectors of Q.
template <std::size_t kRows>
HWY_INLINE void project_rows_back(const LowRankShape& shape, const float* rows, const float* p,
                                  std::size_t count, float* q) {
  for (std::size_t k = 0; k < shape.rank; ++k) {
    add_rows<kRows>(rows, shape.columns, p + k * shape.rows, count, q + k * shape.columns);
  }
}

void project_back(const LowRankShape& shape, Floats matrix, Floats p, MutFloats q) {
  std::fill(q.begin(), q.end(), 0.0f);
  for (std::size_t begin = 0; begin < shape.columns; begin += kTileColumns) {
    const std::size_t count = std::min(kTileColumns, shape.columns - begin);
    const float* const tile = matrix.data() + begin;
    std::size_t row = 0;
    for (; row + kRowsAtOnce <= shape.rows; row += kRowsAtOnce) {
      project_rows_back<kRowsAtOnce>(shape, tile + row * shape.columns, p.data() + row, count,
                                     q.data() + begin);
    }
    for (; row < shape.rows; ++row) {
      project_rows_back<1>(shape, tile + row * shape.columns, p.data() + row, count,
                           q.data() + begin);
    }
  }
}

// Copies the columns of `own` and `mean` that belong to the tile at `begin`, in the order in which
// they are used. In the original, equal columns of several vectors may map to one cache set.
HWY_INLINE void pack(const LowRankShape& shape, Floats own, Floats mean, std::size_t begin,
                     std::size_t vectors, float* packed) {
  for (std::size_t v = 0; v < vectors; ++v) {
    for (std::size_t k = 0; k < shape.rank; ++k) {
      const std::size_t at = k * shape.columns + begin + v * kLanes;
      hn::StoreU(hn::LoadU(kFloats, own.data() + at), kFloats, packed);
      hn::StoreU(hn::LoadU(kFloats, mean.data() + at), kFloats, packed + kLanes);
      packed += 2 * kLanes;
    }
  }
}

// Replaces one SIMD vector of elements in each of kRows rows; `packed` holds the elements of all
// vectors of Q for these columns.
template <std::size_t kRows>
HWY_INLINE void reconstruct_at(const LowRankShape& shape, const RowWeights& weights,
                               const float* packed, float* matrix, float* error) {
  FloatVector sent[kRows], applied[kRows];
  for (std::size_t row = 0; row < kRows; ++row) sent[row] = applied[row] = hn::Zero(kFloats);
  for (std::size_t k = 0; k < shape.rank; ++k) {
    const FloatVector own = hn::LoadU(kFloats, packed + 2 * k * kLanes);
    const FloatVector mean = hn::LoadU(kFloats, packed + (2 * k + 1) * kLanes);
    for (std::size_t row = 0; row < kRows; ++row) {
      const FloatVector weight = hn::Set(kFloats, weights[k][row]);
      sent[row] = hn::Add(sent[row], hn::Mul(weight, own));
      applied[row] = hn::Add(applied[row], hn::Mul(weight, mean));
    }
  }
  // All loads come first: rows may lie a multiple of 4 KiB apart, and then a load would wait for an
  // earlier store (4K aliasing).
  for (std::size_t row = 0; row < kRows; ++row) {
    sent[row] = hn::Sub(hn::LoadU(kFloats, matrix + row * shape.columns), sent[row]);
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    hn::StoreU(sent[row], kFloats, error + row * shape.columns);
    hn::StoreU(applied[row], kFloats, matrix + row * shape.columns);
  }
}

template <std::size_t kRows>
HWY_INLINE void reconstruct_rows(const LowRankShape& shape, const float* p, const float* packed,
                                 std::size_t vectors, float* matrix, float* error) {
  RowWeights weights;
  for (std::size_t k = 0; k < shape.rank; ++k) std::copy_n(p + k * shape.rows, kRows, weights[k]);
  for (std::size_t v = 0; v < vectors; ++v) {
    reconstruct_at<kRows>(shape, weights, packed + v * 2 * shape.rank * kLanes, matrix + v * kLanes,
                          error + v * kLanes);
  }
}

void reconstruct(const LowRankShape& shape, Floats p, Floats own, Floats mean, MutFloats matrix,
                 MutFloats error) {
  alignas(64) float packed[kPackedFloats];
  const std::size_t most = kPackedFloats / (2 * shape.rank * kLanes);
  std::size_t begin = 0;
  while (begin + kLanes <= shape.columns) {
    const std::size_t vectors = std::min(most, (shape.columns - begin) / kLanes);
    pack(shape, own, mean, begin, vectors, packed);
    std::size_t row = 0;
    for (; row + kRowsAtOnce <= shape.rows; row += kRowsAtOnce) {
      const std::size_t at = row * shape.columns + begin;
      reconstruct_rows<kRowsAtOnce>(shape, p.data() + row, packed, vectors, matrix.data() + at,
                                    error.data() + at);
    }
    for (; row < shape.rows; ++row) {
      const std::size_t at = row * shape.columns + begin;
      reconstruct_rows<1>(shape, p.data() + row, packed, vectors, matrix.data() + at,
                          error.data() + at);
    }
    begin += vectors * kLanes;
  }
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t j = begin; j < shape.columns; ++j) {
      const std::size_t at = row * shape.columns + j;
      error[at] = matrix[at] - reference::low_rank_at(shape, p, own, row, j);
      matrix[at] = reference::low_rank_at(shape, p, mean, row, j);
    }
  }
}

}  // namespace thinwire::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::kernel {

HWY_EXPORT(project);
HWY_EXPORT(project_back);
HWY_EXPORT(reconstruct);

void project(const LowRankShape& shape, Floats error, MutFloats gradient, Floats q, MutFloats p) {
  HWY_DYNAMIC_DISPATCH(project)(shape, error, gradient, q, p);
}

void project_back(const LowRankShape& shape, Floats matrix, Floats p, MutFloats q) {
  HWY_DYNAMIC_DISPATCH(project_back)(shape, matrix, p, q);
}

void reconstruct(const LowRankShape& shape, Floats p, Floats own, Floats mean, MutFloats matrix,
                 MutFloats error) {
  HWY_DYNAMIC_DISPATCH(reconstruct)(shape, p, own, mean, matrix, error);
}

}  // namespace thinwire::kernel
#endif
