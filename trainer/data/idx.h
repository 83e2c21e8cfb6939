// The idx format of MNIST: a big-endian header with the extents of an array, then its bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/file.h"

namespace thinwire::trainer {

// Reads the extents of an array of bytes with `dimensions` dimensions, outermost first. Throws
// ConfigError if the header is another one, if an extent is 0, or if the size of the file does not
// match the extents.
std::vector<std::uint32_t> read_idx_extents(DataFile& file, std::size_t dimensions);

// Reads the bytes that follow: as many as the product of the extents. Throws ConfigError if not
// enough memory is available.
std::vector<std::uint8_t> read_idx_values(DataFile& file);

}  // namespace thinwire::trainer
