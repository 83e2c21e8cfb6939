// The idx format of MNIST: a big-endian header with the extents of an array, then its bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/file.h"

namespace thinwire::trainer {

struct IdxArray {
  std::vector<std::uint32_t> extents;  // outermost first, none of them 0
  std::vector<std::uint8_t> values;    // as many as the product of the extents
};

// An array of bytes with as many dimensions as told. ConfigError if the header says otherwise, or
// if the file has not the size that the header promises.
IdxArray read_idx(DataFile& file, std::size_t dimensions);

}  // namespace thinwire::trainer
