// Quantized messages of gossip: a model that is close to the receiver's needs few bits per element.
// How close models are is measured, block by block, on the messages that arrive.
#pragma once

#include <utility>
#include <vector>

#include "base/bytes.h"
#include "thinwire/types.h"

namespace thinwire::strategy {

// Not thread-safe: callers on several threads must lock it.
class ModelCoding {
 public:
  // `bits` is how many bits an element takes: 4 or 8.
  explicit ModelCoding(unsigned bits) : bits_(bits) {}
  // Starts with the model of this worker. Throws WireError if a state that was loaded does not fit.
  void begin(Floats params);

  // Returns the length of a quantized model.
  std::size_t bytes() const noexcept;

  // Must be called after each step. It copies the model, because the task that receives decodes
  // against the copy and must not use the model in training. This takes the memory of one more
  // model, and one pass over it.
  void stepped(Floats params);

  // Takes a model that arrived in full precision, to measure how far apart the models are.
  void observe(Floats model);
  // Throws WireError if these are not the bytes of a quantized model.
  void check(Bytes coded) const;
  // Decodes a model, which must have passed check(), and moves `model` towards it by `share`; a
  // share of 1 replaces `model`. A block that is too far from the own model to be decoded is
  // replaced by the own block.
  void read(Bytes coded, float share, MutFloats model);

  // Must be called for every message to be sent. Writes the quantized model to `out` and subtracts
  // the rounding errors from params. Returns false and changes neither if the distance to other
  // models is not known: then the message must have full precision.
  bool write(MutFloats params, MutBytes out);

  // Numbers of blocks that were read since the last take_count().
  struct Count {
    std::uint64_t blocks = 0, out_of_range = 0;
  };
  Count take_count() noexcept { return std::exchange(count_, {}); }

  void save(base::ByteWriter& out) const;
  void load(base::ByteReader& in);

 private:
  // Ends an interval between two messages. Returns whether the ranges are still valid.
  bool end_interval();
  // Adapts the range of a block to the distance of a model that arrived.
  void adapt_range(std::size_t block, float distance);

  unsigned bits_;
  std::uint64_t messages_ = 0;  // messages that arrived and from which ranges are known
  float interval_ = 0;          // steps since the last message was written
  float usual_interval_ = 0;    // the longest of the last intervals
  std::vector<float> ranges_;   // for each block, the distance of other models from the own one
  std::vector<float> own_;      // a copy of the own model
  std::vector<float> steps_;    // the lattice step of each block of the message that is written
  Count count_;
};

}  // namespace thinwire::strategy
