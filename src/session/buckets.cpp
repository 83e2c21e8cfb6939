#include "session/buckets.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/error.h"

namespace thinwire::session {

std::vector<Bucket> split_layout(const Layout& layout, std::size_t count) {
  if (count <= 1 || layout.tensors.size() <= 1) return {Bucket{0, layout}};
  std::vector<Bucket> out;
  std::size_t end = 0;
  for (const TensorSlot& tensor : layout.tensors) {
    if (tensor.offset != end) {
      throw ConfigError(fmt::format(
          "session: tensor '{}' begins at element {}, but the tensors before it end at {}; "
          "buckets need tensors without gaps",
          tensor.name, tensor.offset, end));
    }
    // A bucket begins where its even share of the elements does.
    const bool due =
        out.empty() ||
        (out.size() < count && end * count >= out.size() * layout.numel && end > out.back().begin);
    if (due) out.push_back({end, {}});
    TensorSlot inside = tensor;
    inside.offset = tensor.offset - out.back().begin;
    out.back().layout.numel += tensor.numel();
    out.back().layout.tensors.push_back(std::move(inside));
    end += tensor.numel();
  }
  if (end != layout.numel) {
    throw ConfigError(
        fmt::format("session: the tensors have {} elements, the layout {}", end, layout.numel));
  }
  return out;
}

}  // namespace thinwire::session
