// Counts the allocations of the whole program while a loader runs.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "trainer/data/images.h"
#include "trainer/data/loader.h"

namespace {
std::atomic<std::uint64_t> allocations{0};
}

// These are not inlined, because the compiler would warn that free() gets memory of operator new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes != 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace thinwire::trainer {
namespace {

TEST(LoaderMemory, NothingIsAllocatedAfterTheFirstEpoch) {
  ImageSet set;
  set.shape.channels = 3;
  set.shape.height = set.shape.width = 5;
  set.shape.classes = 1;
  set.normalization.resize(3);
  set.variation = Variation::crop_flip;
  set.labels.resize(1'003);
  set.pixels.resize(1'003 * set.shape.floats());
  const auto data = make_images(std::move(set));
  for (const std::size_t ahead : {0u, 2u}) {
    LoaderOptions options;
    options.rank = 1;
    options.workers = 3;
    options.batch = 16;
    options.ahead = ahead;
    Loader loader(*data, options);
    const std::uint64_t steps = loader.steps_per_epoch();
    for (std::uint64_t step = 0; step < steps; ++step) (void)loader.next();
    const std::uint64_t before = allocations;
    for (std::uint64_t step = 0; step < 4 * steps; ++step) (void)loader.next();
    EXPECT_EQ(allocations, before) << "reading " << ahead << " ahead";
  }
}

}  // namespace
}  // namespace thinwire::trainer
