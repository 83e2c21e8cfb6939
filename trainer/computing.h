// Sets up libtorch, BLAS and malloc of this process for training.
#pragma once

namespace thinwire::trainer {

// Every worker calls this before its first tensor; a second call changes nothing.
//
// It sets one thread per worker, for libtorch and for OpenBLAS, whose own threads libtorch does not
// control: with two workers on two cores they cost 45 % of the speed.
//
// It also makes malloc keep freed memory. Each step allocates the same activations again; when
// malloc returned them to the kernel in between, page faults took a fifth of the CPU time of a
// short run of ResNet-20 with its test.
void prepare_computing();

}  // namespace thinwire::trainer
