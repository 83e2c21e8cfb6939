// From batches to losses, and from a network to its accuracy on the whole test set.
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

// The test set is dealt out to the workers, each of which uses its own replica; all ranks get the
// result over the whole set.
Evaluation evaluate(Transport& wire, Network& network, const Dataset& test);
// One replica on the whole set, without a word to the others.
Evaluation evaluate_alone(Network& network, const Dataset& test);

}  // namespace thinwire::trainer
