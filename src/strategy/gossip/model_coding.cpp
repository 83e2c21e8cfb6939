#include "strategy/gossip/model_coding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "kernel/magnitude.h"
#include "message/lattice.h"
#include "strategy/common/state.h"

namespace thinwire::strategy {
namespace {

constexpr float kMemory = 0.95f;             // of a range, per message
constexpr float kHeadRoom = 2;               // of the range that is coded over the one expected
constexpr float kLonger = 2;                 // silence for which ranges still hold,
constexpr float kDelay = 4;                  // and steps that a busy wire may add to it
constexpr std::uint64_t kFirstLetters = 16;  // from which ranges are learned, before any is used
constexpr std::uint64_t kNewLetters = 4;     // ... and again after a long silence

// The elements of a block, of a whole model.
template <class Span>
Span block_of(Span model, std::size_t block) {
  const std::size_t first = block * message::lattice::kBlock;
  return model.subspan(first, std::min(message::lattice::kBlock, model.size() - first));
}

float distance(Floats a, Floats b) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, kernel::magnitude(a[i] - b[i]));
  return std::bit_cast<float>(most);
}

}  // namespace

void ModelCoding::begin(Floats params) {
  prepare(ranges_, message::lattice::blocks(params.size()), "ranges");
  own_.assign(params.begin(), params.end());
  steps_.resize(ranges_.size());
}

std::size_t ModelCoding::bytes() const noexcept {
  return message::lattice::bytes(own_.size(), bits_);
}

void ModelCoding::stepped(Floats params) {
  std::ranges::copy(params, own_.begin());
  silence_ += 1;
}

void ModelCoding::learn(std::size_t block, float distance) {
  const bool known = std::isfinite(ranges_[block]);
  ranges_[block] = known ? std::max(distance, kMemory * ranges_[block]) : distance;
}

void ModelCoding::observe(Floats model) {
  for (std::size_t block = 0; block < ranges_.size(); ++block) {
    learn(block, distance(block_of(model, block), block_of(Floats(own_), block)));
  }
  ++messages_;
}

void ModelCoding::check(Bytes coded) const {
  if (coded.size() != bytes()) {
    throw WireError(fmt::format("a coded model has {} bytes, one of this size in {} bits has {}",
                                coded.size(), bits_, bytes()));
  }
  const std::size_t stride = message::lattice::block_bytes(message::lattice::kBlock, bits_);
  for (std::size_t at = 0; at < coded.size(); at += stride)
    message::lattice::read_step(coded.subspan(at));
}

void ModelCoding::read(Bytes coded, float share, MutFloats model) {
  const std::size_t stride = message::lattice::block_bytes(message::lattice::kBlock, bits_);
  std::array<float, message::lattice::kBlock> memory;
  for (std::size_t block = 0; block < ranges_.size(); ++block) {
    const Bytes in = coded.subspan(block * stride);
    const Floats own = block_of(Floats(own_), block);
    const MutFloats into = block_of(model, block), other = MutFloats(memory).first(own.size());
    const bool near = message::lattice::decode(in, bits_, own, other);
    // Farther off than this is all that is known then; with head-room, the next step is larger.
    const double reach = message::lattice::reach(message::lattice::read_step(in), bits_);
    learn(block, near ? distance(other, own) : static_cast<float>(reach));
    count_.out_of_range += near ? 0 : 1;
    const Floats got = near ? Floats(other) : own;
    if (share == 1) {
      std::ranges::copy(got, into.begin());
    } else {
      for (std::size_t i = 0; i < into.size(); ++i) into[i] += share * (got[i] - into[i]);
    }
  }
  count_.blocks += ranges_.size();
  ++messages_;
}

// Workers that are silent for longer than they used to be, as at the end of a warm-up, have moved
// farther apart than they used to: new messages have to tell how far.
bool ModelCoding::end_silence() {
  const bool usual = silence_ <= kLonger * usual_silence_ + kDelay;
  usual_silence_ = std::max(silence_, kMemory * usual_silence_);
  silence_ = 0;
  if (!usual) messages_ = std::min(messages_, kFirstLetters - kNewLetters);
  return messages_ >= kFirstLetters;
}

bool ModelCoding::write(MutFloats params, MutBytes out) {
  if (!end_silence()) return false;
  const auto levels = static_cast<float>((1u << (bits_ - 1)) - 1);  // to either side
  const std::size_t stride = message::lattice::block_bytes(message::lattice::kBlock, bits_);
  for (std::size_t block = 0; block < ranges_.size(); ++block) {
    const float finest = message::lattice::finest_step(block_of(Floats(params), block));
    steps_[block] = std::max(finest, kHeadRoom * ranges_[block] / levels);
    const bool known = std::isfinite(ranges_[block]);
    if (!known || !(steps_[block] <= message::lattice::kLargestStep))
      return false;  // or not a number
  }
  for (std::size_t block = 0; block < ranges_.size(); ++block) {
    message::lattice::encode(block_of(params, block), steps_[block], bits_,
                             out.subspan(block * stride));
  }
  std::ranges::copy(params, own_.begin());
  return true;
}

void ModelCoding::save(base::ByteWriter& out) const {
  out.put(messages_);
  out.put(silence_);
  out.put(usual_silence_);
  put_floats(out, ranges_);
}

void ModelCoding::load(base::ByteReader& in) {
  messages_ = in.get<std::uint64_t>();
  silence_ = in.get<float>();
  usual_silence_ = in.get<float>();
  ranges_ = get_floats(in);
  const auto is_negative = [](float range) { return range < 0; };
  if (std::ranges::any_of(ranges_, is_negative)) {
    throw WireError("the state of gossip has a negative range");
  }
}

}  // namespace thinwire::strategy
