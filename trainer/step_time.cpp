#include "trainer/step_time.h"

#include <algorithm>
#include <ctime>

#include "thinwire/stats.h"
#include "trainer/computing.h"
#include "trainer/evaluate.h"
#include "trainer/flat_model.h"
#include "trainer/models/network.h"

namespace thinwire::trainer {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr int kSteps = 3;
constexpr double kSecondsPerStep = 2;  // the longest step that is measured
constexpr std::size_t kFewest = 2;     // examples: batch norm needs more than one

constexpr ExampleShape images(std::int64_t channels, std::int64_t side, std::int64_t classes) {
  return {ExampleShape::Kind::image, channels, side, side, 0, classes};
}
constexpr ExampleShape sequences(std::int64_t length, std::int64_t vocabulary) {
  return {ExampleShape::Kind::sequence, 0, 0, 0, length, vocabulary};
}

struct Published {
  std::string_view model;
  ExampleShape shape;
};
#define TW_MODEL(word, published, help) Published{#word, published},
constexpr Published kPublished[] = {
#include "trainer/models/list.inc"
};
#undef TW_MODEL

// Returns an empty shape for an unknown model: make_network() then throws an error with the name.
ExampleShape published_shape(std::string_view model) {
  const auto* const found = std::ranges::find(kPublished, model, &Published::model);
  return found == std::end(kPublished) ? ExampleShape{} : found->shape;
}

BatchTensors random_batch(const ExampleShape& shape, std::size_t examples) {
  const auto count = static_cast<std::int64_t>(examples);
  const auto label_count = count * static_cast<std::int64_t>(shape.labels());
  const torch::Tensor labels = torch::randint(shape.classes, {label_count}, torch::kInt64);
  if (shape.kind == ExampleShape::Kind::image) {
    return {torch::randn({count, shape.channels, shape.height, shape.width}), labels};
  }
  return {torch::randint(shape.classes, {count, shape.length}, torch::kInt64), labels};
}

// The network as in training, with its gradients in flat memory.
class Bench {
 public:
  explicit Bench(std::string_view name)
      : shape_(published_shape(name)),
        network_(make_network(name, shape_, kSeed)),
        model_(*network_) {
    network_->train();
  }

  double step(std::size_t examples) {
    const BatchTensors batch = random_batch(shape_, examples);
    // This is the CPU time of the process, whose only busy thread this is: other programs do not
    // count.
    const std::clock_t start = std::clock();
    model_.zero_grads();
    loss_of(*network_, batch).backward();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }

 private:
  ExampleShape shape_;
  std::shared_ptr<Network> network_;
  FlatModel model_;
};

}  // namespace

Layout layout_of(std::string_view model) {
  const auto network = make_network(model, published_shape(model), kSeed);
  return FlatModel(*network).layout();
}

StepTime measure_step(std::string_view model, std::size_t batch) {
  prepare_computing();
  Bench bench(model);
  bench.step(kFewest);  // the first one allocates
  const double per_example = bench.step(kFewest) / static_cast<double>(kFewest);
  const auto affordable = static_cast<std::size_t>(kSecondsPerStep / per_example);
  const std::size_t examples = std::max(kFewest, std::min(batch, affordable));
  std::vector<double> taken;
  for (int step = 0; step < kSteps; ++step) taken.push_back(bench.step(examples));
  const double ratio = static_cast<double>(batch) / static_cast<double>(examples);
  return {Seconds(summarize(std::move(taken)).median * ratio), examples};
}

}  // namespace thinwire::trainer
