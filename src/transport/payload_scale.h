// On `sim`, one byte of payload may represent several bytes of a larger model, so that a simulation
// with a part of the model takes the time of the whole (BackendOptions::payload_scale).
#pragma once

#include <cstddef>

#include "thinwire/transport.h"

namespace thinwire::transport {

// A runtime on which one byte of payload represents payload_scale() bytes. Runtimes that are not of
// this class have a payload scale of 1.
class ScaledRuntime : public Runtime {
 public:
  virtual double payload_scale() const noexcept = 0;
};

// Returns how many bytes one byte of payload represents on the runtime of `wire`. May be called
// from any thread.
double payload_scale(const Transport& wire) noexcept;

// Returns how many bytes (or elements) `bytes` of payload represent. Code that chooses an algorithm
// by the length of a message must use this number, so that a part of a model is exchanged by the
// same algorithms as the whole.
std::size_t represented_bytes(const Transport& wire, std::size_t bytes) noexcept;

}  // namespace thinwire::transport
