// Measures how far the own optimizer has moved the model since it was last sent. Changes by models
// of other workers do not count: otherwise every message would make the next one due.
#pragma once

#include <vector>

#include "thinwire/types.h"

namespace thinwire::strategy {

// For a large model it uses a sample of kSample elements, spread evenly: ratios of lengths differ
// by less than 1 %, and the memory is small.
class OwnMovement {
 public:
  static constexpr std::size_t kSample = std::size_t{1} << 17;

  // Starts with the movement of restore(), or with 0. Throws WireError if it does not fit.
  void begin(Floats params);
  // Must be called when the optimizer has changed the parameters.
  void stepped(Floats params);
  // Must be called when a model of another worker has changed the parameters.
  void merged(Floats params);
  // Must be called when the model was sent: the movement starts again from 0.
  void sent();

  // Return L2 norms: of the movement since the model was last sent, of the last step alone, and of
  // the parameters when they were last sent.
  double length() const noexcept { return length_; }
  double last_step() const noexcept { return step_; }
  double sent_at() const noexcept { return sent_at_; }

  // Return and set the movement of each element of the sample, for checkpoints.
  const std::vector<float>& moved() const noexcept { return moved_; }
  void restore(std::vector<float> moved) { moved_ = std::move(moved); }

 private:
  // Returns the index of element number i of the sample.
  std::size_t element(std::size_t i) const noexcept;

  std::size_t stride_ = 1;
  std::vector<float> at_;     // the sample after the last call
  std::vector<float> moved_;  // how far the own optimizer has moved it since it was last sent
  double length_ = 0, step_ = 0, sent_at_ = 0;
};

}  // namespace thinwire::strategy
