// How far the own optimizer has moved the parameters: the change that is worth telling others. What
// came from others does not count, or every message would call for the next one.
#pragma once

#include <vector>

#include "thinwire/types.h"

namespace thinwire::strategy {

// Measures how far the optimizer moved a model. For a large model it uses a sample of kSample
// elements, spread evenly: ratios of lengths differ by less than 1 %, and the memory is small.
class OwnMovement {
 public:
  static constexpr std::size_t kSample = std::size_t{1} << 17;

  // Nothing has moved; or, after a resume, what restore() brought.
  void begin(Floats params);
  // The optimizer moved the parameters.
  void stepped(Floats params);
  // Somebody else did.
  void merged(Floats params);
  // The model was sent: the movement starts again from 0.
  void sent();

  double length() const noexcept { return length_; }    // since it was last sent, in L2 norm
  double last_step() const noexcept { return step_; }   // of the last step alone
  double sent_at() const noexcept { return sent_at_; }  // norm of the parameters when last sent

  const std::vector<float>& moved() const noexcept { return moved_; }
  void restore(std::vector<float> moved) { moved_ = std::move(moved); }

 private:
  std::size_t element(std::size_t i) const noexcept;

  std::size_t stride_ = 1;
  std::vector<float> at_;     // the sample when last seen
  std::vector<float> moved_;  // by the own optimizer since last sent
  double length_ = 0, step_ = 0, sent_at_ = 0;
};

}  // namespace thinwire::strategy
