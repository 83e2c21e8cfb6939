// A model as the engine sees it: two flat buffers and where each tensor lies in them.
#pragma once

#include <string>
#include <vector>

#include "thinwire/buffer.h"

namespace thinwire {

struct TensorSlot {
  std::string name;
  std::size_t offset = 0;  // of its first element in the flat buffers
  std::vector<std::size_t> shape;

  std::size_t numel() const noexcept {
    std::size_t out = 1;
    for (const std::size_t extent : shape) out *= extent;
    return out;
  }
};

// The tensors in the order of their offsets, without gaps; numel is the length of the buffers.
struct Layout {
  std::vector<TensorSlot> tensors;
  std::size_t numel = 0;
};

// Valid for one step; whoever makes it owns the memory. Either span may be empty where a hook has
// no use for it, otherwise it is layout.numel long.
struct ModelView {
  MutFloats params;
  MutFloats grads;
  const Layout& layout;
};

}  // namespace thinwire
