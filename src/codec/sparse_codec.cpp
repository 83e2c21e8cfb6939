// The largest elements with their indices. What is not among them stays, and so do the rounding
// errors of those that are (error feedback: Seide et al. 2014, Stich et al. 2018).
#include <algorithm>

#include "codec/sparse.h"
#include "thinwire/codec.h"

namespace thinwire {
namespace {

class SparseCodec final : public Codec {
 public:
  SparseCodec(double density, const SparseFormat& format) : density_(density), format_(format) {}

  std::size_t max_bytes(std::size_t numel) const override {
    return sparse_max_bytes(format_, numel, count(numel));
  }

  unsigned value_bits() const noexcept override {
    return format_.values == ValueCoding::bf16 ? 16 : 32;
  }

  void encode(MutFloats acc, std::uint64_t step, Payload& out) override {
    const std::size_t numel = acc.size();
    nothing_.resize(numel);
    top_k_.select({.gradient = nothing_, .residual = acc, .velocity = {}, .params = {}},
                  count(numel), sent_);
    errors_.resize(sent_.size());
    round_to_wire(format_.values, sent_.values, errors_);
    for (std::size_t i = 0; i < sent_.size(); ++i) acc[sent_.indices[i]] = errors_[i];
    encode_sparse(sent_, format_, {numel, step}, out);
  }

  void decode_add(Bytes in, std::uint64_t step, MutFloats into) override {
    decode_sparse(in, format_, {into.size(), step}, count(into.size()), received_);
    for (std::size_t i = 0; i < received_.size(); ++i) {
      into[received_.indices[i]] += received_.values[i];
    }
  }

 private:
  std::size_t count(std::size_t numel) const {
    const auto share = static_cast<std::size_t>(density_ * static_cast<double>(numel));
    return std::min(std::max<std::size_t>(share, 1), numel);
  }

  double density_;
  SparseFormat format_;
  TopK top_k_;
  std::vector<float> nothing_;  // all 0: the gradient that select() adds
  Sparse sent_, received_;
  std::vector<float> errors_;
};

}  // namespace

std::unique_ptr<Codec> make_sparse(Spec& spec) {
  static constexpr std::string_view kValues[] = {"bf16", "fp32"};
  static constexpr std::string_view kIndices[] = {"rice", "raw"};
  // Below 1e-9 not even one of 2^32 elements would be chosen.
  const double density = spec.number("density", 0.001, 1e-9, 1);
  SparseFormat format;
  format.values = spec.choice("values", kValues) == "bf16" ? ValueCoding::bf16 : ValueCoding::fp32;
  format.index = spec.choice("index", kIndices) == "rice" ? IndexCoding::rice : IndexCoding::raw;
  return std::make_unique<SparseCodec>(density, format);
}

}  // namespace thinwire
