#include "transport/payload_scale.h"

namespace thinwire::transport {

double payload_scale(const Transport& wire) noexcept {
  const auto* scaled = dynamic_cast<const ScaledRuntime*>(&wire.runtime());
  return scaled == nullptr ? 1 : scaled->payload_scale();
}

std::size_t represented_bytes(const Transport& wire, std::size_t bytes) noexcept {
  return static_cast<std::size_t>(static_cast<double>(bytes) * payload_scale(wire));
}

}  // namespace thinwire::transport
