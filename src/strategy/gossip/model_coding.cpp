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

constexpr float kMemory = 0.95f;  // share of a range that is left after each message
constexpr float kHeadRoom = 2;    // the range that is coded, divided by the expected one
// Ranges are valid after an interval of up to kLonger usual ones, plus kDelay steps that a busy
// wire may add.
constexpr float kLonger = 2, kDelay = 4;
// Messages that must arrive before ranges are used, at first and after an interval that is too
// long.
constexpr std::uint64_t kFirstMessages = 16, kNewMessages = 4;

// Returns the elements of a block of a model.
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
  interval_ += 1;
}

void ModelCoding::adapt_range(std::size_t block, float distance) {
  const bool known = std::isfinite(ranges_[block]);
  ranges_[block] = known ? std::max(distance, kMemory * ranges_[block]) : distance;
}

void ModelCoding::observe(Floats model) {
  for (std::size_t block = 0; block < ranges_.size(); ++block) {
    adapt_range(block, distance(block_of(model, block), block_of(Floats(own_), block)));
  }
  ++messages_;
}

void ModelCoding::check(Bytes coded) const {
  if (coded.size() != bytes()) {
    throw WireError(
        fmt::format("gossip message: wrong size of a quantized model ({} bytes; {} elements in {} "
                    "bits take {})",
                    coded.size(), own_.size(), bits_, bytes()));
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
    // If a block is not near, all that is known is that its distance is above `reach`. With the
    // head-room, the next lattice step is larger than this one.
    const double reach = message::lattice::reach(message::lattice::read_step(in), bits_);
    adapt_range(block, near ? distance(other, own) : static_cast<float>(reach));
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

// In an interval that is longer than usual, as after the end of a warm-up, models move farther
// apart than before. New messages in full precision are needed to measure how far.
bool ModelCoding::end_interval() {
  const bool usual = interval_ <= kLonger * usual_interval_ + kDelay;
  usual_interval_ = std::max(interval_, kMemory * usual_interval_);
  interval_ = 0;
  if (!usual) messages_ = std::min(messages_, kFirstMessages - kNewMessages);
  return messages_ >= kFirstMessages;
}

bool ModelCoding::write(MutFloats params, MutBytes out) {
  if (!end_interval()) return false;
  const auto levels = static_cast<float>((1u << (bits_ - 1)) - 1);  // to either side
  const std::size_t stride = message::lattice::block_bytes(message::lattice::kBlock, bits_);
  for (std::size_t block = 0; block < ranges_.size(); ++block) {
    const float finest = message::lattice::finest_step(block_of(Floats(params), block));
    steps_[block] = std::max(finest, kHeadRoom * ranges_[block] / levels);
    const bool known = std::isfinite(ranges_[block]);
    // This form of the comparison also refuses a step that is NaN.
    if (!known || !(steps_[block] <= message::lattice::kLargestStep)) return false;
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
  out.put(interval_);
  out.put(usual_interval_);
  put_floats(out, ranges_);
}

void ModelCoding::load(base::ByteReader& in) {
  messages_ = in.get<std::uint64_t>();
  interval_ = in.get<float>();
  usual_interval_ = in.get<float>();
  ranges_ = get_floats(in);
  const auto is_negative = [](float range) { return range < 0; };
  const auto negative = std::ranges::find_if(ranges_, is_negative);
  if (negative != ranges_.end()) {
    throw WireError(fmt::format("gossip: its state is damaged (a range is {})", *negative));
  }
}

}  // namespace thinwire::strategy
