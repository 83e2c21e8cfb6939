// Messages of gossip in few bits: models that are near each other need only say how they differ.
// How near they are is learned, block by block, from the messages that come.
#pragma once

#include <utility>
#include <vector>

#include "base/bytes.h"
#include "thinwire/types.h"

namespace thinwire::strategy {

// Not thread-safe: callers on several threads must lock it.
class ModelCoding {
 public:
  explicit ModelCoding(unsigned bits) : bits_(bits) {}
  void begin(Floats params);

  std::size_t bytes() const noexcept;

  // After each step. What messages are read against is a copy of the own model, since a task that
  // receives must not look at the one in training: one more model in memory, and one pass over it.
  void stepped(Floats params);

  // Somebody's model came in full.
  void observe(Floats model);
  // WireError unless these are the bytes of a model.
  void check(Bytes coded) const;
  // Somebody's model came in bytes that have been checked: moves `model` towards it by `share`;
  // with a share of 1 it is taken as it is. A block that was too far off to be read is taken for
  // the own one.
  void read(Bytes coded, float share, MutFloats model);

  // For every message. False if it is not known how near others are: the model is to be sent in
  // full. Otherwise the model becomes what balances the rounding of what was written.
  bool write(MutFloats params, MutBytes out);

  // Since this was last asked.
  struct Count {
    std::uint64_t blocks = 0, out_of_range = 0;
  };
  Count take_count() noexcept { return std::exchange(count_, {}); }

  void save(base::ByteWriter& out) const;
  void load(base::ByteReader& in);

 private:
  bool end_silence();  // whether ranges still hold
  void learn(std::size_t block, float distance);

  unsigned bits_;
  std::uint64_t messages_ = 0;  // that came and count
  float silence_ = 0;           // steps since a message was written
  float usual_silence_ = 0;     // the longest of late
  std::vector<float> ranges_;   // of each block: how far others are from the own model
  std::vector<float> own_;
  std::vector<float> steps_;  // of the message that is written
  Count count_;
};

}  // namespace thinwire::strategy
