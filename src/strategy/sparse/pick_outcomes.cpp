#include "strategy/sparse/pick_outcomes.h"

namespace thinwire::strategy {

PickOutcomes::Watched& PickOutcomes::watch() {
  if (used_ == lists_.size()) lists_.emplace_back();
  Watched& watched = lists_[used_++];
  watched.entries.clear();
  watched.entries.reserve(room_);
  watched.alive.clear();
  watched.alive.reserve(room_);
  return watched;
}

PickOutcomes::Watched& PickOutcomes::watch(const Sparse& entries) {
  Watched& watched = watch();
  watched.entries = entries;
  watched.alive.assign(entries.size(), 1);
  return watched;
}

void PickOutcomes::add(Watched& watched, std::uint32_t index, float value) {
  watched.entries.push_back(index, value);
  watched.alive.push_back(1);
}

void PickOutcomes::keep_only(std::span<const std::uint32_t> survivors) {
  for (std::size_t i = 0; i < used_; ++i) {
    Watched& watched = lists_[i];
    look_up(watched.entries.indices, survivors,
            [&](std::size_t j, bool found) { watched.alive[j] &= found ? 1 : 0; });
  }
}

void pack_alive(const PickOutcomes::Watched& watched, Payload& bits) {
  bits.assign((watched.alive.size() + 7) / 8, std::byte{0});
  for (std::size_t j = 0; j < watched.alive.size(); ++j) {
    bits[j / 8] |= static_cast<std::byte>(watched.alive[j] << j % 8);
  }
}

void unpack_survivors(std::span<const std::uint32_t> indices, Bytes bits,
                      std::vector<std::uint32_t>& survivors) {
  survivors.clear();
  for (std::size_t j = 0; j < indices.size(); ++j) {
    if ((bits[j / 8] >> j % 8 & std::byte{1}) != std::byte{0}) survivors.push_back(indices[j]);
  }
}

}  // namespace thinwire::strategy
