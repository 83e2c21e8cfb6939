#include "trainer/compute_threads.h"

#include <dlfcn.h>
#include <torch/torch.h>

namespace thinwire::trainer {

void set_compute_threads(int threads) {
  torch::set_num_threads(threads);
  // Another BLAS has no such function, and needs none.
  void* const found = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (found != nullptr) reinterpret_cast<void (*)(int)>(found)(threads);
}

}  // namespace thinwire::trainer
