// How many threads a worker computes with.
#pragma once

namespace thinwire::trainer {

// For libtorch, and for OpenBLAS below it, which keeps threads of its own that libtorch does not
// know of: with two workers on two cores they cost 45 % of the speed.
void set_compute_threads(int threads);

}  // namespace thinwire::trainer
