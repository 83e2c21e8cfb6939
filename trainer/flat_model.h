// A network whose parameters, gradients and statistics are each in one contiguous buffer. Its
// tensors are views of these buffers, so that nothing is copied to be sent.
#pragma once

#include <torch/torch.h>

#include "thinwire/types.h"

namespace thinwire::trainer {

class FlatModel {
 public:
  // Moves the parameters (and float buffers such as the running means of batch norm) of `network`
  // into flat memory and makes them, and the gradients, views of it.
  explicit FlatModel(torch::nn::Module& network);

  ModelView view() { return {params(), grads(), layout_}; }
  MutFloats params() { return span_of(params_); }
  MutFloats grads() { return span_of(grads_); }
  // Returns the running means and variances, which have no gradients. The workers average them
  // before they are used in a test.
  MutFloats statistics() { return span_of(statistics_); }
  const Layout& layout() const noexcept { return layout_; }

  void zero_grads();

 private:
  static MutFloats span_of(torch::Tensor& flat) {
    return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
  }

  Layout layout_;
  torch::Tensor params_, grads_, statistics_;
};

}  // namespace thinwire::trainer
