#include "session/bucket_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/error.h"

namespace thinwire::session {
namespace {

constexpr double kSmallest = 1.0 / 16, kLargest = 16;
// The exponent of the correction in one step. Magnitudes of gradients fall about as fast as their
// rank rises, so 1 would reach the aim at once, and a half does not follow the noise of one step.
constexpr double kCorrection = 0.5;
// Shares are multiples of it: the last bits of logarithms may differ between CPUs.
constexpr double kUnit = 1.0 / 1024;

}  // namespace

BucketShares::BucketShares(std::vector<std::size_t> sizes)
    : sizes_(std::move(sizes)), shares_(sizes_.size(), 1.0), magnitudes_(sizes_.size(), 0.0) {}

void BucketShares::observe(std::size_t bucket, Floats grads, const Update& update) {
  magnitudes_[bucket] = 0;
  if (update.skip || !update.sparse || update.indices.empty()) return;
  sorted_.clear();
  for (const std::uint32_t index : update.indices) sorted_.push_back(std::fabs(grads[index]));
  const auto middle = sorted_.begin() + static_cast<std::ptrdiff_t>(sorted_.size() / 2);
  std::nth_element(sorted_.begin(), middle, sorted_.end());
  magnitudes_[bucket] = static_cast<double>(*middle);
}

void BucketShares::finish_step() {
  // The mean over the elements that took part, in logarithms.
  double logarithms = 0, elements = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (magnitudes_[i] <= 0) continue;
    const double weight = static_cast<double>(sizes_[i]);
    logarithms += weight * std::log(magnitudes_[i]);
    elements += weight;
  }
  if (elements == 0) return;
  const double typical = std::exp(logarithms / elements);
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (magnitudes_[i] > 0) shares_[i] *= std::pow(magnitudes_[i] / typical, kCorrection);
  }
  normalize();
}

// A bound changes the mean, so that normalizing and bounding are repeated until both hold nearly.
void BucketShares::normalize() {
  constexpr int kTurns = 32;
  for (int turn = 0; turn < kTurns; ++turn) {
    double selected = 0, all = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      selected += shares_[i] * static_cast<double>(sizes_[i]);
      all += static_cast<double>(sizes_[i]);
    }
    for (double& share : shares_) share = std::clamp(share * all / selected, kSmallest, kLargest);
  }
  for (double& share : shares_) share = std::max(kSmallest, std::round(share / kUnit) * kUnit);
}

void BucketShares::set(std::vector<double> shares) {
  if (shares.size() != shares_.size()) {
    throw WireError(
        fmt::format("session: the state has the shares of {} buckets, this model has {}",
                    shares.size(), shares_.size()));
  }
  for (const double share : shares) {
    if (share >= kSmallest && share <= kLargest) continue;
    throw WireError(fmt::format("session: share of a bucket out of range ({})", share));
  }
  shares_ = std::move(shares);
}

}  // namespace thinwire::session
