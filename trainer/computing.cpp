#include "trainer/computing.h"

#include <dlfcn.h>
#include <malloc.h>
#include <torch/torch.h>

namespace thinwire::trainer {
namespace {

constexpr int kLargestUnmapped = 32 << 20;  // the most that glibc takes
constexpr int kKeptAtTheTop = 1 << 30;

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, kLargestUnmapped);
  mallopt(M_TRIM_THRESHOLD, kKeptAtTheTop);
  // Arenas of other threads are cut into heaps of 64 MB that come and go; the main one is not.
  mallopt(M_ARENA_MAX, 1);
}

}  // namespace

void prepare_computing() {
  keep_freed_memory();
  torch::set_num_threads(1);
  // Another BLAS has no such function, and needs none.
  void* const found = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (found != nullptr) reinterpret_cast<void (*)(int)>(found)(1);
}

}  // namespace thinwire::trainer
