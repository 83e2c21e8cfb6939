// Which messages the ring and the doubling send in which order.
#pragma once

#include "collective/cost.h"
#include "collective/pipeline.h"
#include "transport/payload_scale.h"

namespace thinwire::collective {

// A vector of elements as bytes.
struct Elements {
  MutBytes bytes;
  std::size_t element_bytes;

  std::size_t count() const noexcept { return bytes.size() / element_bytes; }
  MutBytes part(std::size_t begin, std::size_t numel) const noexcept {
    return bytes.subspan(begin * element_bytes, numel * element_bytes);
  }
};

// Share s starts on rank s + 1 and moves to the next higher rank in each step. Each rank adds its
// own data, until the share is complete on rank s. In P - 1 further steps it moves on unchanged.
class RingSchedule final : public Schedule {
 public:
  enum class Part { reduce_scatter, allreduce };
  RingSchedule(Elements data, const Transport& wire, Part part)
      : data_(data),
        rank_(wire.rank()),
        size_(wire.size()),
        chunks_(
            chunk_count(transport::represented_bytes(wire, largest_share() * data.element_bytes))) {
    const std::size_t half = static_cast<std::size_t>(size_ - 1) * chunks_;
    messages = part == Part::allreduce ? 2 * half : half;
    depends = chunks_;
    overwrites = half;
    longest = (largest_share() + chunks_ - 1) / chunks_ * data.element_bytes;
    completes = {half - chunks_, half};
  }

  Hop hop(std::size_t message) const override {
    const auto step = static_cast<int>(message / chunks_);
    const std::size_t chunk = message % chunks_;
    const Arrival arrival = step < size_ - 1 ? Arrival::lower : Arrival::store;
    return {{(rank_ + 1) % size_, (rank_ + size_ - 1) % size_, arrival},
            piece(rank_ - 1 - step, chunk),
            piece(rank_ - 2 - step, chunk)};
  }

 private:
  std::size_t largest_share() const { return share_of(data_.count(), 0, size_).size(); }
  MutBytes piece(int share, std::size_t chunk) const {
    const Share whole = share_of(data_.count(), (share + 2 * size_) % size_, size_);
    const Share part = share_of(whole.size(), static_cast<int>(chunk), static_cast<int>(chunks_));
    return data_.part(whole.begin + part.begin, part.size());
  }

  Elements data_;
  int rank_;
  int size_;
  std::size_t chunks_;
};

// In each round of the butterfly two ranks exchange all of their data.
class DoublingSchedule final : public Schedule {
 public:
  DoublingSchedule(Elements data, const Transport& wire)
      : data_(data),
        butterfly_(wire.rank(), wire.size()),
        chunks_(chunk_count(transport::represented_bytes(wire, data.bytes.size()))) {
    const auto rounds = static_cast<std::size_t>(butterfly_.rounds());
    messages = rounds * chunks_;
    depends = chunks_;
    // The odd rank of a pair sends its data in the first round and receives the result in the last.
    overwrites = butterfly_.folds() ? (rounds - 1) * chunks_ : messages;
    longest = (data.count() + chunks_ - 1) / chunks_ * data.element_bytes;
    const std::size_t last = rounds - (butterfly_.folds() ? 2 : 1);
    completes = {last * chunks_, (last + 1) * chunks_};
  }

  Hop hop(std::size_t message) const override {
    const auto chunk = static_cast<int>(message % chunks_);
    const Share part = share_of(data_.count(), chunk, static_cast<int>(chunks_));
    const MutBytes piece = data_.part(part.begin, part.size());
    return {butterfly_.peering(static_cast<int>(message / chunks_)), piece, piece};
  }

 private:
  Elements data_;
  Butterfly butterfly_;
  std::size_t chunks_;
};

}  // namespace thinwire::collective
