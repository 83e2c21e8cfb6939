// Baseline: Gloo's ring all-reduce with its own segment size.
#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "base/number.h"
#include "native.h"

namespace {

using thinwire::bench::NativeGroup;
using thinwire::bench::NativeOptions;

int from_environment(const char* name) {
  const char* text = std::getenv(name);
  const std::string_view digits = text == nullptr ? "" : text;
  const auto value = thinwire::base::parse_number<int>(digits);
  if (!value || *value < 0) {
    throw std::runtime_error(fmt::format(
        "{}='{}' is not a number; start the ranks with RANK and WORLD_SIZE set", name, digits));
  }
  return *value;
}

class GlooGroup final : public NativeGroup {
 public:
  explicit GlooGroup(const NativeOptions& options)
      : context_(std::make_shared<gloo::rendezvous::Context>(from_environment("RANK"),
                                                             from_environment("WORLD_SIZE"))) {
    gloo::transport::tcp::attr attributes;
    attributes.iface = options.interface;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(options.store);
    context_->setTimeout(std::chrono::minutes(10));  // 100 MB take minutes at 10 Mbit/s
    context_->connectFullMesh(store, device);
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  void allreduce_sum(std::span<float> data) override {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
      gloo::sum<float>(out, a, b, count);
    });
    gloo::allreduce(options);
  }

  std::vector<double> allgather(double value) override {
    std::vector<double> all(static_cast<std::size_t>(size()));
    gloo::AllgatherOptions options(context_);
    options.setInput(&value, 1);
    options.setOutput(all.data(), all.size());
    gloo::allgather(options);
    return all;
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

std::unique_ptr<NativeGroup> join(const NativeOptions& options) {
  return std::make_unique<GlooGroup>(options);
}

}  // namespace

int main(int argc, char** argv) {
  return thinwire::bench::run_native(argc, argv, {"gloo-native", "gloo", true, join});
}
