// How this process computes. Every worker says so before its first tensor; saying it again changes
// nothing.
#pragma once

namespace thinwire::trainer {

// One thread per worker, for libtorch and for OpenBLAS below it, which keeps threads of its own
// that libtorch does not know of: with two workers on two cores they cost 45 % of the speed.
//
// And memory that was freed stays with the process: each step allocates the same activations
// again, and giving them back to the kernel in between cost page faults: a fifth of the CPU time of
// a short run of ResNet-20 with its test.
void prepare_computing();

}  // namespace thinwire::trainer
