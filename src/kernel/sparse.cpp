// Sums and cuts of sparse vectors, which stay in index order. Which operand has the next index is
// not predictable, so the loops use conditional moves instead of branches.
#include "kernel/sparse.h"

#include <algorithm>

#include "kernel/cutoff.h"
#include "kernel/magnitude.h"

namespace thinwire::kernel {
namespace {

void resize(Sparse& entries, std::size_t size) {
  entries.indices.resize(size);
  entries.values.resize(size);
}

// Copies the entries of `from` from `begin` on to `out` from `at` on. Returns the end of the copy.
std::size_t copy_rest(const Sparse& from, std::size_t begin, Sparse& out, std::size_t at) {
  const auto first = static_cast<std::ptrdiff_t>(begin);
  const auto to = static_cast<std::ptrdiff_t>(at);
  std::copy(from.indices.begin() + first, from.indices.end(), out.indices.begin() + to);
  std::copy(from.values.begin() + first, from.values.end(), out.values.begin() + to);
  return at + from.size() - begin;
}

}  // namespace

void merge(const Sparse& a, const Sparse& b, Sparse& out) {
  resize(out, a.size() + b.size());
  std::size_t i = 0, j = 0, size = 0;
  for (; i < a.size() && j < b.size(); ++size) {
    const std::uint32_t left = a.indices[i], right = b.indices[j];
    const float x = a.values[i], y = b.values[j];
    const bool take_left = left <= right, take_right = right <= left;
    const float single = take_left ? x : y;
    out.indices[size] = take_left ? left : right;
    out.values[size] = take_left && take_right ? x + y : single;
    i += take_left;
    j += take_right;
  }
  size = copy_rest(a, i, out, size);
  size = copy_rest(b, j, out, size);
  resize(out, size);
}

void cut(Sparse& entries, std::size_t k, Sparse& dropped) {
  dropped.clear();
  if (k >= entries.size()) return;
  if (k == 0) return std::swap(entries, dropped);
  kernel::Cutoff cutoff = kernel::find_cutoff(entries.values, k);
  resize(dropped, entries.size() - k + 1);  // one more: each entry is written to both sides
  std::size_t kept = 0, lost = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::uint32_t index = entries.indices[i];
    const float value = entries.values[i];
    const std::uint32_t magnitude = kernel::magnitude(value);
    const bool tie = magnitude == cutoff.magnitude && cutoff.ties > 0;
    const bool keep = magnitude > cutoff.magnitude || tie;
    cutoff.ties -= tie;
    entries.indices[kept] = dropped.indices[lost] = index;
    entries.values[kept] = dropped.values[lost] = value;
    kept += keep;
    lost += !keep;
  }
  resize(entries, kept);
  resize(dropped, lost);
}

}  // namespace thinwire::kernel
