// All-reduce and reduce-scatter.
#include <algorithm>

#include "collective/schedules.h"
#include "collective/tags.h"
#include "thinwire/collective.h"
#include "transport/payload_scale.h"

namespace thinwire {
namespace {

// Each reduction has a number, which becomes part of its tag, so that the messages of different
// reductions cannot be mixed up. The numbers are not stored anywhere.
constexpr collective::Reduction kSumFloat = collective::make_reduction<collective::Sum, float>(0);
constexpr collective::Reduction kSum8 =
    collective::make_reduction<collective::Sum, std::uint8_t>(1);
constexpr collective::Reduction kSum16 =
    collective::make_reduction<collective::Sum, std::uint16_t>(2);
constexpr collective::Reduction kSum32 =
    collective::make_reduction<collective::Sum, std::uint32_t>(3);
constexpr collective::Reduction kSum64 =
    collective::make_reduction<collective::Sum, std::uint64_t>(4);
constexpr collective::Reduction kMax32 =
    collective::make_reduction<collective::Max, std::uint32_t>(5);
constexpr collective::Reduction kMax64 =
    collective::make_reduction<collective::Max, std::uint64_t>(6);
constexpr collective::Reduction kMin32 =
    collective::make_reduction<collective::Min, std::uint32_t>(7);
constexpr collective::Reduction kMin64 =
    collective::make_reduction<collective::Min, std::uint64_t>(8);
constexpr collective::Reduction kAnd32 =
    collective::make_reduction<collective::And, std::uint32_t>(9);
constexpr collective::Reduction kAnd64 =
    collective::make_reduction<collective::And, std::uint64_t>(10);
constexpr collective::Reduction kSumBf16 = collective::make_half_sum<Bf16>(11);
constexpr collective::Reduction kSumFp16 = collective::make_half_sum<Fp16>(12);

void doubling(Transport& wire, collective::Elements data, const collective::Reduction& reduction,
              collective::Finish* finish = nullptr) {
  collective::run_pipeline(wire, collective::tag_of(collective::Stream::doubling, reduction.number),
                           collective::DoublingSchedule(data, wire), reduction, finish);
}

template <class T>
void allreduce(Transport& wire, std::span<T> span, const collective::Reduction& reduction,
               Route route, collective::Finish* finish = nullptr) {
  if (wire.size() == 1 || span.empty()) return;
  const collective::Elements data{std::as_writable_bytes(span), sizeof(T)};
  if (collective::allreduce_route(route, transport::represented_bytes(wire, span.size_bytes()),
                                  wire.size()) == Route::doubling) {
    return doubling(wire, data, reduction, finish);
  }
  collective::run_pipeline(
      wire, collective::tag_of(collective::Stream::ring, reduction.number),
      collective::RingSchedule(data, wire, collective::RingSchedule::Part::allreduce), reduction,
      finish);
}

MutFloats as_floats(MutBytes bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// Divides each sum on the rank that completes it, and records whether all results are finite.
class Mean final : public collective::Finish {
 public:
  explicit Mean(int workers) : workers_(static_cast<float>(workers)) {}

  void combined(MutBytes piece) override {
    // A division, not a multiplication by 1/P, gives the correctly rounded mean.
    for (float& value : as_floats(piece)) value /= workers_;
    arrived(piece);
  }
  void arrived(Bytes piece) override {
    const auto* values = reinterpret_cast<const std::uint32_t*>(piece.data());
    std::uint32_t highest = 0;
    for (std::size_t i = 0; i < piece.size() / sizeof(float); ++i) {
      highest = std::max(highest, values[i] & kExponent);
    }
    highest_ = std::max(highest_, highest);
  }
  bool finite() const { return highest_ != kExponent; }

 private:
  static constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinite or NaN
  float workers_;
  std::uint32_t highest_ = 0;
};

}  // namespace

void allreduce_sum(Transport& wire, MutFloats data, Route route) {
  allreduce(wire, data, kSumFloat, route);
}
void allreduce_sum(Transport& wire, std::span<Bf16> data, Route route) {
  allreduce(wire, data, kSumBf16, route);
}
void allreduce_sum(Transport& wire, std::span<Fp16> data, Route route) {
  allreduce(wire, data, kSumFp16, route);
}
void allreduce_sum(Transport& wire, std::span<std::uint8_t> data, Route route) {
  allreduce(wire, data, kSum8, route);
}
void allreduce_sum(Transport& wire, std::span<std::uint16_t> data, Route route) {
  allreduce(wire, data, kSum16, route);
}
void allreduce_sum(Transport& wire, std::span<std::uint32_t> data, Route route) {
  allreduce(wire, data, kSum32, route);
}
void allreduce_sum(Transport& wire, std::span<std::uint64_t> data, Route route) {
  allreduce(wire, data, kSum64, route);
}
void allreduce_max(Transport& wire, std::span<std::uint32_t> data, Route route) {
  allreduce(wire, data, kMax32, route);
}
void allreduce_max(Transport& wire, std::span<std::uint64_t> data, Route route) {
  allreduce(wire, data, kMax64, route);
}
void allreduce_min(Transport& wire, std::span<std::uint32_t> data, Route route) {
  allreduce(wire, data, kMin32, route);
}
void allreduce_min(Transport& wire, std::span<std::uint64_t> data, Route route) {
  allreduce(wire, data, kMin64, route);
}
void allreduce_and(Transport& wire, std::span<std::uint32_t> data, Route route) {
  allreduce(wire, data, kAnd32, route);
}
void allreduce_and(Transport& wire, std::span<std::uint64_t> data, Route route) {
  allreduce(wire, data, kAnd64, route);
}

bool allreduce_mean(Transport& wire, MutFloats data, Route route) {
  Mean mean(wire.size());
  if (wire.size() == 1) {
    mean.arrived(std::as_bytes(data));
  } else {
    allreduce(wire, data, kSumFloat, route, &mean);
  }
  return mean.finite();
}

void reduce_scatter_sum(Transport& wire, MutFloats span) {
  if (wire.size() == 1 || span.empty()) return;
  const collective::Elements data{std::as_writable_bytes(span), sizeof(float)};
  if (collective::reduce_scatter_route(transport::represented_bytes(wire, span.size_bytes()),
                                       wire.size()) == Route::doubling) {
    return doubling(wire, data, kSumFloat);
  }
  collective::run_pipeline(
      wire, collective::tag_of(collective::Stream::ring_scatter, kSumFloat.number),
      collective::RingSchedule(data, wire, collective::RingSchedule::Part::reduce_scatter),
      kSumFloat);
}

Share share_of(std::size_t n, int rank, int size) noexcept {
  const auto place = static_cast<std::size_t>(rank);
  const auto count = static_cast<std::size_t>(size);
  const std::size_t each = n / count;
  const std::size_t longer = n % count;  // how many ranks own one element more
  const std::size_t begin = place * each + std::min(place, longer);
  return {begin, begin + each + (place < longer ? 1 : 0)};
}

std::uint64_t allreduce_bytes(std::size_t numel, int rank, int size, Route route,
                              std::size_t element_bytes) {
  if (size == 1) return 0;
  if (collective::allreduce_route(route, numel * element_bytes, size) == Route::ring) {
    const std::size_t kept = share_of(numel, rank, size).size();
    const std::size_t next = share_of(numel, (rank + 1) % size, size).size();
    return (2 * numel - kept - next) * element_bytes;
  }
  const collective::Butterfly butterfly(rank, size);
  std::uint64_t sends = 0;
  for (int round = 0; round < butterfly.rounds(); ++round) {
    if (butterfly.peering(round).to != kNoRank) ++sends;
  }
  return sends * numel * element_bytes;
}

}  // namespace thinwire
