#include "trainer/data/idx.h"

#include "fuzz/memory_file.h"
#include "fuzz/target.h"

namespace thinwire::fuzz {

void idx_file(Bytes input) {
  Choices choices(input);
  const std::size_t dimensions = 1 + choices.below(4);
  const MemoryFile file(choices.rest());
  accept_or_refuse<ConfigError>([&] {
    trainer::DataFile in(file.path(), 0, "advice");
    const std::vector<std::uint32_t> extents = trainer::read_idx_extents(in, dimensions);
    std::size_t count = 1;
    for (const std::uint32_t extent : extents) count *= extent;
    demand(extents.size() == dimensions && trainer::read_idx_values(in).size() == count);
  });
}

}  // namespace thinwire::fuzz
