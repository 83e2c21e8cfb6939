// Computes the loss of a batch, and the accuracy of a network on the whole test set.
#pragma once

#include <torch/torch.h>

#include "thinwire/transport.h"
#include "trainer/data/loader.h"
#include "trainer/models/network.h"
#include "trainer/train.h"

namespace thinwire::trainer {

struct BatchTensors {
  torch::Tensor input, labels;
};
// Views of the batch's memory: valid as long as it is.
BatchTensors to_tensors(const Batch& batch, const ExampleShape& shape);

// The mean cross entropy over all labels of the batch.
torch::Tensor loss_of(Network& network, const BatchTensors& batch);

// Tests on the whole set. Each worker tests its own replica on a share of it; all ranks call it
// together and get the same result.
Evaluation evaluate(Transport& wire, Network& network, const Dataset& test);
// Tests one replica on the whole set, without any communication.
Evaluation evaluate_alone(Network& network, const Dataset& test);

}  // namespace thinwire::trainer
