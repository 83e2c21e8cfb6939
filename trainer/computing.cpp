#include "trainer/computing.h"

#include <dlfcn.h>
#include <malloc.h>
#include <torch/torch.h>

namespace thinwire::trainer {
namespace {

constexpr int kLargestUnmapped = 32 << 20;  // the largest value that glibc accepts
constexpr int kKeptAtTheTop = 1 << 30;

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, kLargestUnmapped);
  mallopt(M_TRIM_THRESHOLD, kKeptAtTheTop);
  // The arenas of other threads consist of heaps of 64 MB, which are mapped and unmapped; the main
  // arena does not.
  mallopt(M_ARENA_MAX, 1);
}

}  // namespace

void prepare_computing() {
  keep_freed_memory();
  torch::set_num_threads(1);
  // Other BLAS libraries do not have this function, and do not need it.
  void* const found = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (found != nullptr) reinterpret_cast<void (*)(int)>(found)(1);
}

}  // namespace thinwire::trainer
