// The entry of libFuzzer, compiled once for each target.
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  thinwire::fuzz::THINWIRE_FUZZ_TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
