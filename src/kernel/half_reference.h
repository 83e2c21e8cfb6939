// The specification of kernel/half.h, one number at a time.
#pragma once

#include "thinwire/types.h"

namespace thinwire::kernel::reference {

float to_float(Bf16 value);
float to_float(Fp16 value);
Bf16 to_bf16(float value);
Fp16 to_fp16(float value);

}  // namespace thinwire::kernel::reference
