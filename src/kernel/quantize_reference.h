// The specification of kernel/quantize.h and kernel/bitpack.h, one number at a time.
#pragma once

#include "kernel/quantize.h"

namespace thinwire::kernel::reference {

// Returns u of one element, in units of 2^-16, before 1/2 is added.
std::uint32_t threshold(const Dither& dither, std::uint64_t element);

std::uint32_t highest_magnitude(Floats values);
void find_fits(Floats tile, const Lattice& lattice, std::uint64_t* fits);
void quantize(Floats tile, std::uint64_t number, const Lattice& lattice, const std::uint64_t* fits,
              const Dither& dither, std::uint32_t* codes);
void dequantize(const std::uint32_t* codes, std::uint32_t zero,
                const std::array<float, kMostScales>& steps, std::size_t scales,
                const std::uint64_t* fits, MutFloats tile);

void pack(const std::uint32_t* codes, unsigned width, std::uint32_t* words);
void unpack(const std::uint32_t* words, unsigned width, std::uint32_t* codes);

}  // namespace thinwire::kernel::reference
