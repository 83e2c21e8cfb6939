// Compares the models of all ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "session/error_fields.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"
#include "thinwire/session.h"

namespace thinwire {
namespace {

std::vector<std::uint64_t> tensor_hashes(const ModelView& model) {
  std::vector<std::uint64_t> hashes;
  const auto& tensors = model.layout.tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t end = i + 1 < tensors.size() ? tensors[i + 1].offset : model.layout.numel;
    hashes.push_back(base::hash64(
        std::as_bytes(model.params.subspan(tensors[i].offset, end - tensors[i].offset))));
  }
  return hashes;
}

}  // namespace

bool Session::replicas_identical(ModelView model) {
  std::uint64_t bounds[2];
  bounds[0] = base::hash64(std::as_bytes(model.params));
  bounds[1] = ~bounds[0];
  allreduce_max(wire_, std::span(bounds));
  return bounds[0] == ~bounds[1];
}

void Session::check_replicas(ModelView model) {
  if (replicas_identical(model)) return;
  const std::vector<std::uint64_t> mine = tensor_hashes(model);
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(wire_.size()));
  allgather(wire_, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (std::size_t tensor = 0; tensor < mine.size(); ++tensor) {
    std::vector<int> others;
    for (int rank = 1; rank < wire_.size(); ++rank) {
      const auto row = static_cast<std::size_t>(rank) * mine.size();
      if (all[row + tensor] != all[tensor]) others.push_back(rank);
    }
    if (others.empty()) continue;
    throw Error(
        fmt::format(
            "session: the replicas differ after step {} (tensor '{}' of rank {} is not that "
            "of rank 0); the machines compute differently (compiler, CPU, libraries), or "
            "this is a bug",
            step_, model.layout.tensors[tensor].name, fmt::join(others, ", ")),
        session::error_fields(wire_, "check", others[0]));
  }
}

}  // namespace thinwire
