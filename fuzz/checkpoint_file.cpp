#include "base/hash.h"
#include "fuzz/memory_file.h"
#include "fuzz/target.h"
#include "trainer/checkpoint.h"

namespace thinwire::fuzz {

// Reads the input as it is, and with a correct checksum appended.
void checkpoint_file(Bytes input) {
  const trainer::Identity identity{"m", "d", "s", 2, 3, 1, 32};
  Payload checksummed(input.begin(), input.end());
  base::ByteWriter(checksummed).put(base::hash64(input));
  for (const Bytes contents : {input, Bytes(checksummed)}) {
    const MemoryFile file(contents);
    accept_or_refuse<WireError, ConfigError>([&] {
      const auto sections = trainer::read_checkpoint(file.path(), identity, 5);
      std::size_t bytes = 0;
      for (const trainer::Section& section : sections) bytes += section.bytes.size();
      demand(bytes <= contents.size());
    });
  }
}

}  // namespace thinwire::fuzz
