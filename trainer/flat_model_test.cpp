#include "trainer/flat_model.h"

#include <gtest/gtest.h>

#include <mutex>

#include "thinwire/launch.h"
#include "thinwire/session.h"
#include "trainer/models/network.h"

namespace thinwire::trainer {
namespace {

const ExampleShape kSmallImages{ExampleShape::Kind::image, 3, 32, 32, 0, 10};

void backward(Network& network) {
  const torch::Tensor input = torch::ones({2, 3, 32, 32});
  torch::nn::functional::cross_entropy(network.forward(input), torch::zeros({2}, torch::kInt64))
      .backward();
}

TEST(FlatModel, TensorsAreViewsOfOneBuffer) {
  const auto network = make_network("resnet20", kSmallImages, 1);
  const torch::Tensor before = network->parameters()[5].clone();
  FlatModel model(*network);
  EXPECT_TRUE(network->parameters()[5].equal(before));
  std::size_t offset = 0, index = 0;
  for (const auto& parameter : network->named_parameters()) {
    EXPECT_EQ(model.layout().tensors[index].name, parameter.key());
    EXPECT_EQ(model.layout().tensors[index].offset, offset);
    EXPECT_EQ(parameter->data_ptr<float>(), model.params().data() + offset);
    offset += static_cast<std::size_t>(parameter->numel());
    ++index;
  }
  EXPECT_EQ(model.layout().numel, offset);
  EXPECT_EQ(model.statistics().size(), 2u * 688);  // means and variances of 19 norms
}

TEST(FlatModel, BackwardWritesIntoTheFlatBufferStepAfterStep) {
  const auto network = make_network("lenet", kSmallImages, 1);
  FlatModel model(*network);
  for (int step = 0; step < 3; ++step) {
    model.zero_grads();
    backward(*network);
    std::size_t offset = 0;
    double sum = 0;
    for (const torch::Tensor& parameter : network->parameters()) {
      ASSERT_EQ(parameter.grad().data_ptr<float>(), model.grads().data() + offset);
      offset += static_cast<std::size_t>(parameter.numel());
      sum += parameter.grad().abs().sum().item<double>();
    }
    EXPECT_GT(sum, 0);
  }
}

// Records the memory from which large messages are sent.
class Recorder final : public Transport {
 public:
  explicit Recorder(Transport& inner)
      : Transport(inner.rank(), inner.hosts(), inner.runtime()), inner_(inner) {}
  std::vector<Bytes> sent;

 private:
  std::uint32_t do_post_send(int to, Tag tag, Bytes message) override {
    sent.push_back(message);
    return inner_.post_send(to, tag, message).ticket;
  }
  std::uint32_t do_post_recv(int from, Tag tag, MutBytes into, Fit fit) override {
    return inner_.post_recv(from, tag, into, fit).ticket;
  }
  Received do_wait(const Pending& pending, Seconds) override { return inner_.wait(pending); }
  void do_cancel() noexcept override {}
  std::unique_ptr<Transport> do_lane() override { return nullptr; }
  std::unique_ptr<Transport> do_clone_handle() override { return nullptr; }

  Transport& inner_;
};

TEST(FlatModel, GradientsAreSentWithoutACopy) {
  JoinOptions options;
  options.size = 3;
  run_workers("threads", options, [](Transport& joined) {
    const auto network = make_network("lenet", kSmallImages, 1);
    FlatModel model(*network);
    backward(*network);
    Recorder wire(joined);
    Session session(wire, {});
    session.begin(model.view(), 0);
    wire.sent.clear();
    ASSERT_FALSE(session.exchange(model.view()).skip);
    const auto* begin = reinterpret_cast<const std::byte*>(model.grads().data());
    const auto* end = begin + model.grads().size_bytes();
    ASSERT_FALSE(wire.sent.empty());
    for (const Bytes message : wire.sent) {
      EXPECT_TRUE(message.data() >= begin && message.data() + message.size() <= end);
    }
  });
}

TEST(Sgd, DoesWhatTorchDoes) {
  for (const SgdConfig& options :
       {SgdConfig{0, 0, false}, SgdConfig{0.9f, 0, false}, SgdConfig{0.9f, 1e-3f, true}}) {
    torch::Tensor theirs = torch::linspace(-1, 1, 1000).set_requires_grad(true);
    std::vector<float> ours(theirs.data_ptr<float>(), theirs.data_ptr<float>() + 1000);
    torch::optim::SGD optimizer({theirs}, torch::optim::SGDOptions(0.1)
                                              .momentum(options.momentum)
                                              .weight_decay(options.weight_decay)
                                              .nesterov(options.nesterov));
    run_workers("threads", {}, [&](Transport& wire) {
      const Layout layout{{{"all", 0, {1000}}}, 1000};
      SessionOptions session_options;
      session_options.run.sgd = options;
      Session session(wire, session_options);
      for (int step = 0; step < 5; ++step) {
        torch::Tensor gradient = torch::linspace(0, step + 1, 1000);
        theirs.mutable_grad() = gradient.clone();
        optimizer.step();
        const ModelView model{ours, {gradient.data_ptr<float>(), 1000}, layout};
        if (step == 0) session.begin(model, 0);
        session.apply(model, session.exchange(model), 0.1f);
        session.finish_step(model);
      }
    });
    for (std::size_t i = 0; i < 1000; ++i) {
      ASSERT_NEAR(ours[i], theirs.data_ptr<float>()[i], 1e-5) << i;
    }
  }
}

}  // namespace
}  // namespace thinwire::trainer
