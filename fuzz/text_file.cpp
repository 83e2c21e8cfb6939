#include <vector>

#include "fuzz/memory_file.h"
#include "fuzz/target.h"
#include "trainer/data/dataset.h"

namespace thinwire::fuzz {
namespace {

void read_all(const trainer::Dataset& data) {
  const trainer::ExampleShape shape = data.shape();
  std::vector<std::int64_t> tokens(shape.tokens()), labels(shape.labels());
  for (std::size_t i = 0; i < data.size(); ++i) {
    data.read(i, nullptr, {{}, tokens, labels});
    for (const auto& values : {tokens, labels}) {
      for (const std::int64_t value : values) demand(value >= 0 && value < shape.classes);
    }
  }
}

}  // namespace

// Repeats a few bytes many times, because a text must have a minimum length.
void text_file(Bytes input) {
  Choices choices(input);
  const std::size_t times = 1 + choices.below(500);
  Payload text;
  for (std::size_t i = 0; i < times && text.size() < 100'000; ++i) {
    base::ByteWriter(text).put(choices.rest());
  }
  const MemoryFile file(text);
  for (const char* kind : {"text:", "text:word:"}) {
    accept_or_refuse<ConfigError>([&] {
      const trainer::DataPair data = trainer::load_data(kind + file.path().string(), 1);
      read_all(*data.train);
      read_all(*data.test);
    });
  }
}

}  // namespace thinwire::fuzz
