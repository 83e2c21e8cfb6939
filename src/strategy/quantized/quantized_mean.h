// The mean of vectors that every worker rounds to the same lattice (QSGD-MaxNorm and its
// multi-scale form, Vineeth S 2021). The largest magnitude N of a bucket, over all workers, is
// agreed first; then all round to multiples of N / s, and the integers add up exactly in an
// all-reduce, whatever its shape and the order of arrival.
#pragma once

#include <vector>

#include "collective/two_hop.h"
#include "kernel/quantize.h"
#include "strategy/quantized/quantization.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

class QuantizedMean : private collective::TwoHop {
 public:
  explicit QuantizedMean(Quantization quantization) : quantization_(std::move(quantization)) {}

  // Before the first step; ConfigError as above. Of the values, `absent` are always 0, since they
  // travel elsewhere.
  void begin(std::size_t most_elements, int workers, std::size_t absent = 0);

  // All ranks learn the norms of their values, and whether anything is not finite anywhere: then
  // false. `outside` are the largest bits of |x| of what is not among the values. Nothing changes.
  bool agree(const GradientStep& context, MutFloats values, std::uint32_t outside);

  enum class Rounding {
    dithered,  // right on average; `values` are left as they are
    nearest,   // `values` becomes what rounding took away, for a later step
  };
  // mean = the mean over all workers of what was agreed on; it may be `values` if the rounding is
  // dithered.
  void exchange(const GradientStep& context, MutFloats values, MutFloats mean, Rounding rounding);

  // With several scales `fine_share`, of all elements so far but the absent ones how many were told
  // in a finer scale than the first; `blocks_per_worker`, what each of them adds up, 0 if words
  // were added along the way.
  std::vector<Metric> metrics() const;
  // Blocks into which the last exchange was divided among the workers; 0 if it was not.
  double blocks() const noexcept { return dealt_; }

 private:
  bool many_scales() const noexcept { return quantization_.bits.size() > 1; }
  std::size_t tiles() const noexcept {
    return (values_.size() + kernel::kTile - 1) / kernel::kTile;
  }
  std::size_t bucket_of(std::size_t tile) const noexcept;
  kernel::Lattice lattice_of(std::size_t tile) const;
  std::array<float, kernel::kMostScales> steps_of(std::size_t tile, double workers) const;
  // Of a tile, in fits_.
  std::size_t fits_at(std::size_t tile) const noexcept;
  static MutFloats part(MutFloats of, std::size_t tile);

  void agree_on_scales(const GradientStep& context);
  void encode(std::size_t tile, std::uint32_t* codes);
  void decode(std::size_t tile, const std::uint32_t* sums);
  bool words_are_cheaper() const;
  void exchange_words(const GradientStep& context);
  std::size_t count_pieces() const;
  Share tiles_of(int owner, std::size_t piece) const;

  std::size_t narrow_bytes(int owner, std::size_t piece) const override;
  std::size_t wide_bytes(int owner, std::size_t piece) const override;
  void give(int owner, std::size_t piece, MutBytes narrow) override;
  void begin_sum(std::size_t piece) override;
  void add(std::size_t piece, Bytes narrow) override;
  void end_sum(std::size_t piece, MutBytes wide) override;
  void take(int owner, std::size_t piece, Bytes wide) override;

  Quantization quantization_;
  CodeWidths lanes_;
  int workers_ = 1;
  std::size_t absent_ = 0;
  // Of the step under way:
  const GradientStep* context_ = nullptr;
  MutFloats values_, mean_;
  Rounding rounding_ = Rounding::dithered;
  kernel::Dither dither_;
  std::vector<std::uint32_t> norms_;  // of the buckets, and of what is outside
  std::vector<std::uint64_t> fits_;   // masks of the finer scales, agreed by all
  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> sums_;  // of a piece
  collective::TwoHopExchange two_hop_;
  // Of the run:
  double fine_ = 0, elements_ = 0;
  double dealt_ = 0;  // tiles of the last exchange in two hops
};

}  // namespace thinwire::strategy
