// The keys of qsgd and grandk that describe the lattice, and the metrics that both report.
#pragma once

#include <string_view>
#include <vector>

#include "base/spec.h"
#include "collective/quantized_allreduce.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Reads the keys bits, scales and bucket; default_bucket is the default of the last. Throws
// ConfigError, which names the key and what is allowed.
collective::Quantization read_quantization(base::Spec& spec, std::string_view default_bucket);

// Returns `fine_share`, if there are several scales: the share of the elements that were sent in a
// finer scale than the first; and `blocks_per_worker`: how many tiles each worker added up in the
// last exchange in two hops, 0 if there was none.
std::vector<Metric> quantized_metrics(const collective::QuantizedAllreduce& allreduce);

}  // namespace thinwire::strategy
