// Floats as they are.
#include <algorithm>
#include <cstring>

#include "codec/dense.h"
#include "thinwire/codec.h"

namespace thinwire {
namespace {

class Raw final : public Codec {
 public:
  std::size_t max_bytes(std::size_t numel) const override {
    return dense_bytes(DenseCoding::fp32, numel);
  }

  unsigned value_bits() const noexcept override { return 32; }

  void encode(MutFloats acc, std::uint64_t step, Payload& out) override {
    const MutBytes elements = open_dense({DenseCoding::fp32, step, acc.size()}, out);
    if (!acc.empty()) std::memcpy(elements.data(), acc.data(), acc.size_bytes());
    seal_dense(elements);
    std::ranges::fill(acc, 0.0f);
  }

  void decode_add(Bytes in, std::uint64_t step, MutFloats into) override {
    const Bytes elements = read_dense(in, {DenseCoding::fp32, step, into.size()});
    for (std::size_t i = 0; i < into.size(); ++i) {
      float value;
      std::memcpy(&value, elements.data() + i * sizeof value, sizeof value);
      into[i] += value;
    }
  }
};

}  // namespace

std::unique_ptr<Codec> make_raw(Spec&) { return std::make_unique<Raw>(); }

}  // namespace thinwire
