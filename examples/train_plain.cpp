// Trains a model in plain C++, without any framework, on several workers that exchange only the
// largest entries of their gradients (gtopk).
//
//   train_plain                     four workers, threads of this process
//   train_plain RANK SIZE [PORT]    one of SIZE processes of this machine, over TCP: start all
//
// thinwire needs only two flat buffers of a model, parameters and gradients, and the position of
// each tensor in them.
#include <thinwire/launch.h>
#include <thinwire/session.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kHidden = 32;
constexpr int kBatch = 32;  // examples per worker and step
constexpr int kSteps = 3000;
constexpr float kLearningRate = 0.1f;

// A point of the square, and whether it lies in a ring around the middle.
struct Example {
  float x = 0, y = 0, label = 0;
};

Example draw(std::mt19937& random) {
  std::uniform_real_distribution<float> coordinate(-1, 1);
  Example out{coordinate(random), coordinate(random), 0};
  const float radius = std::hypot(out.x, out.y);
  out.label = radius > 0.4f && radius < 0.8f ? 1.0f : 0.0f;
  return out;
}

// Two inputs, a hidden layer of tanh units, one output: the probability of the ring.
class Perceptron {
 public:
  Perceptron() {
    add("hidden.weight", {kHidden, 2});
    add("hidden.bias", {kHidden});
    add("output.weight", {kHidden});
    add("output.bias", {1});
    params_.resize(layout_.numel);
    grads_.resize(layout_.numel);
    std::mt19937 random(1);
    std::normal_distribution<float> start(0, 2);
    for (float& value : params_) value = start(random);
  }

  // What the engine sees; valid as long as the model is.
  thinwire::ModelView view() { return {params_, grads_, layout_}; }

  void zero_grads() { std::fill(grads_.begin(), grads_.end(), 0.0f); }

  float predict(const Example& example) {
    float sum = params_[kOutputBias];
    for (std::size_t i = 0; i < kHidden; ++i) {
      const float* const in = &params_[2 * i];
      hidden_[i] = std::tanh(in[0] * example.x + in[1] * example.y + params_[kHiddenBias + i]);
      sum += params_[kOutput + i] * hidden_[i];
    }
    return 1 / (1 + std::exp(-sum));
  }

  // Adds `weight` times the gradient of the cross entropy of one example.
  void backward(const Example& example, float weight) {
    const float error = weight * (predict(example) - example.label);
    grads_[kOutputBias] += error;
    for (std::size_t i = 0; i < kHidden; ++i) {
      grads_[kOutput + i] += error * hidden_[i];
      const float inner = error * params_[kOutput + i] * (1 - hidden_[i] * hidden_[i]);
      grads_[2 * i] += inner * example.x;
      grads_[2 * i + 1] += inner * example.y;
      grads_[kHiddenBias + i] += inner;
    }
  }

 private:
  static constexpr std::size_t kHiddenBias = 2 * kHidden;
  static constexpr std::size_t kOutput = 3 * kHidden;
  static constexpr std::size_t kOutputBias = 4 * kHidden;

  void add(const char* name, std::vector<std::size_t> shape) {
    layout_.tensors.push_back({name, layout_.numel, std::move(shape)});
    layout_.numel += layout_.tensors.back().numel();
  }

  thinwire::Layout layout_;
  std::vector<float> params_, grads_;
  float hidden_[kHidden] = {};
};

double accuracy(Perceptron& model) {
  constexpr int kExamples = 5000;
  std::mt19937 random(12345);
  int right = 0;
  for (int i = 0; i < kExamples; ++i) {
    const Example example = draw(random);
    right += (model.predict(example) > 0.5f) == (example.label > 0.5f) ? 1 : 0;
  }
  return static_cast<double>(right) / kExamples;
}

// What every worker does. The same code runs on threads, over TCP, over MPI and in simulation.
void train(thinwire::Transport& wire) {
  thinwire::SessionOptions options;
  options.strategy = "gtopk:density=0.1";  // another word, and workers communicate differently
  options.run.steps = kSteps;
  options.run.sgd.momentum = 0.9f;
  options.check_every = 1000;  // compares the replicas; an error names the tensor that differs

  Perceptron model;
  thinwire::Session session(wire, options);

  // Each worker has its own examples; rank 0's parameters reach all in begin().
  std::mt19937 random(1000u + static_cast<unsigned>(wire.rank()));
  session.begin(model.view(), 0);
  for (int step = 0; step < kSteps; ++step) {
    model.zero_grads();
    for (int i = 0; i < kBatch; ++i) model.backward(draw(random), 1.0f / kBatch);
    // Afterwards the gradients are the same on every worker; a sparse update lists those that are
    // not 0. A step in which a gradient of any worker was not finite is skipped.
    const thinwire::Update update = session.exchange(model.view());
    // SGD with the part of momentum that the strategy leaves: gtopk applies it before it selects.
    session.apply(model.view(), update, kLearningRate);
    session.finish_step(model.view(), {kBatch, kLearningRate});
  }
  session.end(model.view());

  const bool identical = session.replicas_identical(model.view());  // by all workers together
  const double reached = accuracy(model);
  if (!identical || reached < 0.9) throw thinwire::Error("the workers did not learn the ring");
  if (wire.rank() != 0) return;
  std::cout << "accuracy " << reached << " with " << wire.size() << " workers; each sent "
            << wire.traffic().bytes_sent / kSteps << " bytes per step, the model has "
            << model.view().layout.numel * sizeof(float) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  try {
    thinwire::JoinOptions options;
    if (argc < 3) {
      options.size = 4;
      thinwire::run_workers("threads", options, train);
    } else {
      options.rank = std::stoi(argv[1]);
      options.size = std::stoi(argv[2]);
      if (argc > 3) options.master_port = static_cast<std::uint16_t>(std::stoi(argv[3]));
      thinwire::run_workers("gloo", options, train);
    }
  } catch (const std::exception& error) {
    // A lost peer, a wrong spec, a replica that differs: the text says which, where and what to do.
    std::cerr << "train_plain: " << error.what() << '\n';
    return 1;
  }
}
