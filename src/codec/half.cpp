// 16-bit floats; what rounding takes away stays behind.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "codec/dense.h"
#include "kernel/half.h"
#include "thinwire/codec.h"

namespace thinwire {
namespace {

// Elements at a time: what a block needs stays in the first-level cache.
constexpr std::size_t kBlock = 1024;

template <class Half>
constexpr DenseCoding kCoding = std::is_same_v<Half, Bf16> ? DenseCoding::bf16 : DenseCoding::fp16;

// The largest finite number; its negative is 0x8000 above.
template <class Half>
constexpr std::uint16_t kLargest = std::is_same_v<Half, Bf16> ? 0x7f7f : 0x7bff;

template <class Half>
class HalfBlock {
 public:
  // Codes the elements and leaves in them what the code misses.
  void encode(MutFloats elements) {
    const std::span<Half> coded = std::span(coded_).first(elements.size());
    const MutFloats sent = MutFloats(sent_).first(elements.size());
    kernel::encode(elements, 1, coded);
    kernel::decode(std::span<const Half>(coded), sent);
    int unequal = 0;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      unequal |= static_cast<int>(sent[i] + (elements[i] - sent[i]) != elements[i]);
    }
    if (unequal != 0) repair(elements, coded, sent);
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] -= sent[i];
  }

  void decode_add(MutFloats into) {
    const MutFloats sent = MutFloats(sent_).first(into.size());
    kernel::decode(std::span<const Half>(coded_).first(into.size()), sent);
    for (std::size_t i = 0; i < into.size(); ++i) into[i] += sent[i];
  }

  MutBytes bytes(std::size_t numel) {
    return std::as_writable_bytes(std::span(coded_).first(numel));
  }

 private:
  // Rounding alone is always made good by the rest. What is not: a number too large for the code,
  // of which as much goes as the rest can be told exactly, and one that is not finite, which goes
  // whole.
  void repair(MutFloats elements, std::span<Half> coded, MutFloats sent) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      float& element = elements[i];
      if (!std::isfinite(element)) {
        element = sent[i] = 0;
        continue;
      }
      if (std::isfinite(sent[i])) continue;
      for (const std::uint16_t magnitude : {kLargest<Half>, std::uint16_t{0}}) {
        coded[i].bits = static_cast<std::uint16_t>(magnitude | (element < 0 ? 0x8000 : 0));
        sent[i] = kernel::reference::to_float(coded[i]);
        if (sent[i] + (element - sent[i]) == element) break;
      }
    }
  }

  std::array<Half, kBlock> coded_;
  std::array<float, kBlock> sent_;
};

template <class Half>
class HalfCodec final : public Codec {
 public:
  std::size_t max_bytes(std::size_t numel) const override {
    return dense_bytes(kCoding<Half>, numel);
  }

  unsigned value_bits() const noexcept override { return 16; }

  void encode(MutFloats acc, std::uint64_t step, Payload& out) override {
    const MutBytes elements = open_dense({kCoding<Half>, step, acc.size()}, out);
    for (std::size_t begin = 0; begin < acc.size(); begin += kBlock) {
      const std::size_t numel = std::min(kBlock, acc.size() - begin);
      block_.encode(acc.subspan(begin, numel));
      std::ranges::copy(block_.bytes(numel), elements.begin() + offset(begin));
    }
    seal_dense(elements);
  }

  void decode_add(Bytes in, std::uint64_t step, MutFloats into) override {
    const Bytes elements = read_dense(in, {kCoding<Half>, step, into.size()});
    for (std::size_t begin = 0; begin < into.size(); begin += kBlock) {
      const std::size_t numel = std::min(kBlock, into.size() - begin);
      const MutBytes coded = block_.bytes(numel);
      std::memcpy(coded.data(), elements.data() + offset(begin), coded.size());
      block_.decode_add(into.subspan(begin, numel));
    }
  }

 private:
  static std::ptrdiff_t offset(std::size_t element) {
    return static_cast<std::ptrdiff_t>(element * sizeof(Half));
  }

  HalfBlock<Half> block_;
};

}  // namespace

std::unique_ptr<Codec> make_half(Spec& spec) {
  static constexpr std::string_view kTypes[] = {"bf16", "fp16"};
  if (spec.choice("dtype", kTypes) == "bf16") return std::make_unique<HalfCodec<Bf16>>();
  return std::make_unique<HalfCodec<Fp16>>();
}

}  // namespace thinwire
