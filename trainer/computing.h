// Sets up libtorch, BLAS and malloc of this process for training.
#pragma once

namespace thinwire::trainer {

// Every worker calls this before its first tensor; a second call changes nothing.
//
// It sets one thread per worker, for libtorch and for OpenBLAS below it, which keeps threads of its
// own that libtorch does not know of: with two workers on two cores they cost 45 % of the speed.
//
// It also makes malloc keep freed memory: each step allocates the same activations again, and
// giving them back to the kernel in between cost page faults, a fifth of the CPU time of a short
// run of ResNet-20 with its test.
void prepare_computing();

}  // namespace thinwire::trainer
