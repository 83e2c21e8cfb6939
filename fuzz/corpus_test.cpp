// Runs every target on its corpus and on similar inputs: prefixes of a file, and files with one
// byte changed. It needs no fuzzer, so it runs wherever the tests do.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/target.h"

namespace thinwire::fuzz {
namespace {

namespace fs = std::filesystem;

struct Target {
  std::string_view name;
  void (*run)(Bytes);
};
constexpr Target kTargets[] = {
#define TW_FUZZ(word, help) {#word, word},
#include "fuzz/list.inc"
#undef TW_FUZZ
};
std::ostream& operator<<(std::ostream& out, const Target& target) { return out << target.name; }

Payload contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const Bytes bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, AndItsNeighboursAreAcceptedOrRefused) {
  // The number of prefixes of a file that are tested, and of copies with a changed byte.
  constexpr std::size_t kNeighbours = 64;
  constexpr std::size_t kLongest = 4096;
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(CORPUS) / GetParam().name)) {
    SCOPED_TRACE(entry.path());
    Payload input = contents(entry.path());
    ASSERT_LE(input.size(), kLongest) << "a corpus is kept small";
    GetParam().run(input);
    const std::size_t stride = input.size() / kNeighbours + 1;
    for (std::size_t at = 0; at < input.size(); at += stride) {
      GetParam().run(Bytes(input).first(at));
      input[at] ^= std::byte{0x5a};
      GetParam().run(input);
      input[at] ^= std::byte{0x5a};
    }
    ++files;
  }
  EXPECT_GE(files, 1u);
}

INSTANTIATE_TEST_SUITE_P(Each, Corpus, testing::ValuesIn(kTargets),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace thinwire::fuzz
