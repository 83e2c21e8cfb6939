// How this process computes: once per process, before the first tensor of a worker.
#pragma once

namespace thinwire::trainer {

// One thread per worker, for libtorch and for OpenBLAS below it, which keeps threads of its own
// that libtorch does not know of: with two workers on two cores they cost 45 % of the speed.
//
// And memory that was freed stays with the process: each step allocates the same activations
// again, and giving them back to the kernel in between cost a quarter of a step of ResNet-20 in
// page faults.
void prepare_computing();

}  // namespace thinwire::trainer
