#include "kernel/bitpack.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bitpack.cpp"
#include <hwy/foreach_target.h>  // compiles the code below once for each CPU target
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernel::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kColumns = 8;
constexpr std::size_t kRows = kTile / kColumns;
using WordTag = hn::CappedTag<std::uint32_t, kColumns>;
constexpr WordTag kWords;

void pack(const std::uint32_t* codes, unsigned width, std::uint32_t* words) {
  for (std::size_t column = 0; column < kColumns; column += hn::Lanes(kWords)) {
    std::uint32_t* out = words + column;
    auto filling = hn::Zero(kWords);
    unsigned filled = 0;  // how many of its bits are in use
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto code = hn::LoadU(kWords, codes + row * kColumns + column);
      filling = hn::Or(filling, hn::ShiftLeftSame(code, static_cast<int>(filled)));
      filled += width;
      if (filled < 32) continue;
      hn::StoreU(filling, kWords, out);
      out += kColumns;
      filled -= 32;
      // A shift by 32 must give 0, but some CPUs shift modulo 32.
      filling = filled == 0 ? hn::Zero(kWords)
                            : hn::ShiftRightSame(code, static_cast<int>(width - filled));
    }
  }
}

template <class Store>
HWY_INLINE void for_codes(const std::uint32_t* words, unsigned width, Store store) {
  const auto mask = hn::Set(kWords, (1u << width) - 1);
  for (std::size_t column = 0; column < kColumns; column += hn::Lanes(kWords)) {
    const std::uint32_t* in = words + column;
    auto word = hn::LoadU(kWords, in);
    unsigned at = 0;  // the first bit of the next code
    for (std::size_t row = 0; row < kRows; ++row) {
      auto code = hn::ShiftRightSame(word, static_cast<int>(at));
      at += width;
      if (at >= 32) {
        at -= 32;
        in += kColumns;
        if (row + 1 < kRows) {
          word = hn::LoadU(kWords, in);
          if (at > 0) code = hn::Or(code, hn::ShiftLeftSame(word, static_cast<int>(width - at)));
        }
      }
      store(row * kColumns + column, hn::And(code, mask));
    }
  }
}

void unpack(const std::uint32_t* words, unsigned width, std::uint32_t* codes) {
  for_codes(words, width, [&](std::size_t i, hn::Vec<WordTag> code) HWY_ATTR {
    hn::StoreU(code, kWords, codes + i);
  });
}

void unpack_add(const std::uint32_t* words, unsigned width, std::uint32_t* codes) {
  for_codes(words, width, [&](std::size_t i, hn::Vec<WordTag> code) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(kWords, codes + i), code), kWords, codes + i);
  });
}

}  // namespace thinwire::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::kernel {

HWY_EXPORT(pack);
HWY_EXPORT(unpack);
HWY_EXPORT(unpack_add);

void pack(const std::uint32_t* codes, unsigned width, std::uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(pack)(codes, width, words);
}
void unpack(const std::uint32_t* words, unsigned width, std::uint32_t* codes) {
  HWY_DYNAMIC_DISPATCH(unpack)(words, width, codes);
}
void unpack_add(const std::uint32_t* words, unsigned width, std::uint32_t* codes) {
  HWY_DYNAMIC_DISPATCH(unpack_add)(words, width, codes);
}

}  // namespace thinwire::kernel
#endif
