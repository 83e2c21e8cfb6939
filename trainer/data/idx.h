// The idx format of MNIST: a big-endian header with the extents of an array, then its bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/file.h"

namespace thinwire::trainer {

// The extents of an array of bytes with as many dimensions as told, outermost first, none of them
// 0. ConfigError if the header says otherwise, or if the file has not the size that it promises.
std::vector<std::uint32_t> read_idx_extents(DataFile& file, std::size_t dimensions);

// The bytes that follow: as many as the product of the extents. ConfigError if memory lacks.
std::vector<std::uint8_t> read_idx_values(DataFile& file);

}  // namespace thinwire::trainer
