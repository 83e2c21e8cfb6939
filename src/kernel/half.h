// Conversions to and from 16-bit floats, and their sums. Values are rounded to nearest, ties to
// even. Values that are too large become infinite; NaN stays NaN. Every CPU gives the same bits;
// only the payload of a NaN that add() returns may differ.
#pragma once

#include <span>

#include "thinwire/types.h"

namespace thinwire::kernel {

// Sets out[i] to in[i] * scale, rounded. The spans have equal lengths.
void encode(Floats in, float scale, std::span<Bf16> out);
void encode(Floats in, float scale, std::span<Fp16> out);

// Sets out[i] to in[i], which is exact. The spans have equal lengths.
void decode(std::span<const Bf16> in, MutFloats out);
void decode(std::span<const Fp16> in, MutFloats out);

// Sets out[i] to a[i] + b[i], added as floats and rounded. The spans have equal lengths; `out` may
// be `a` or `b`.
void add(std::span<const Bf16> a, std::span<const Bf16> b, std::span<Bf16> out);
void add(std::span<const Fp16> a, std::span<const Fp16> b, std::span<Fp16> out);

}  // namespace thinwire::kernel
