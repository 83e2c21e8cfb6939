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
    const trainer::IdxArray array = trainer::read_idx(in, dimensions);
    std::size_t count = 1;
    for (const std::uint32_t extent : array.extents) count *= extent;
    demand(array.extents.size() == dimensions && array.values.size() == count);
  });
}

}  // namespace thinwire::fuzz
