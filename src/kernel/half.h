// Conversions to and from 16-bit floats, and their sums. Rounding is to nearest, ties to even; what
// is too large becomes infinite, NaN stays NaN. Bit for bit the same on every CPU.
#pragma once

#include <span>

#include "thinwire/types.h"

namespace thinwire::kernel {

// out[i] = in[i] * scale, rounded. The spans have equal lengths.
void encode(Floats in, float scale, std::span<Bf16> out);
void encode(Floats in, float scale, std::span<Fp16> out);

void decode(std::span<const Bf16> in, MutFloats out);
void decode(std::span<const Fp16> in, MutFloats out);

// out[i] = a[i] + b[i], added as floats and rounded. `out` may be `a` or `b`.
void add(std::span<const Bf16> a, std::span<const Bf16> b, std::span<Bf16> out);
void add(std::span<const Fp16> a, std::span<const Fp16> b, std::span<Fp16> out);

namespace reference {  // the specification, one number at a time

float to_float(Bf16 value);
float to_float(Fp16 value);
Bf16 to_bf16(float value);
Fp16 to_fp16(float value);

}  // namespace reference
}  // namespace thinwire::kernel
