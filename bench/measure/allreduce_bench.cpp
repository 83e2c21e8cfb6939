#include "bench/measure/allreduce_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/hash.h"
#include "plan/synthetic_model.h"
#include "thinwire/collective.h"
#include "thinwire/session.h"

namespace thinwire::measure {
namespace {

constexpr std::size_t kSamples = 64;
constexpr std::size_t kLayerSide = 1024;  // a million parameters, as large networks have them

// Returns 1 + the first sampled element that is not the mean; 0 if all are.
std::uint64_t find_wrong(Floats result, std::uint64_t seed, int rep, int workers) {
  if (workers > plan::kMostExactWorkers || result.empty()) return 0;
  const std::size_t samples = std::min(kSamples, result.size());
  for (std::size_t s = 0; s < samples; ++s) {
    // Evenly spread, the first and the last among them.
    const std::size_t element = samples == 1 ? 0 : s * (result.size() - 1) / (samples - 1);
    if (result[element] != plan::mean_gradient(element, seed, rep, workers)) return element + 1;
  }
  return 0;
}

std::uint64_t nanoseconds(Seconds duration) {
  return static_cast<std::uint64_t>(std::llround(std::max(0.0, duration.count()) * 1e9));
}

// The values of a rank after each repetition. The largest over all ranks counts.
struct Observed {
  enum Index { elapsed, codec, sent, received, wrong, hash, kCount };
  std::array<std::uint64_t, kCount> values{};
};

class Measurement {
 public:
  Measurement(Transport& wire, const AllreduceBenchOptions& options, std::size_t numel)
      : wire_(wire),
        options_(options),
        // Other strategies do not return the exact mean; their own tests check them.
        exact_(options.strategy == "dense" || options.strategy == "dense:dtype=fp32"),
        gradient_(numel),
        layout_(plan::layered(numel, kLayerSide)),
        session_(wire, session_options(options)) {}

  AllreduceResult run(const RepStarted& rep_started) {
    session_.begin(view(), 0);
    for (int rep = 0; rep < options_.warmup + options_.reps; ++rep) {
      rep_started(rep);
      note(agree(exchange(rep)), rep);
    }
    session_.end(view());
    AllreduceResult out = result();
    out.seconds_add = measure_add();
    out.metrics = session_.metrics();
    return out;
  }

 private:
  static SessionOptions session_options(const AllreduceBenchOptions& options) {
    SessionOptions out;
    out.strategy = options.strategy;
    out.run.codec_time = CodecTime::charged;
    return out;
  }
  ModelView view() { return {{}, gradient_, layout_}; }

  // All ranks compute at once, as in an exchange. In simulated time ranks compute one after the
  // other, so one of them is enough.
  double measure_add() {
    constexpr int kPasses = 3;
    const bool idle = wire_.runtime().simulated() && wire_.rank() != 0;
    std::vector<float> sum(idle ? 0 : gradient_.size());
    std::vector<double> taken;
    for (int pass = 0; pass < kPasses; ++pass) {
      barrier(wire_);
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient_[i];
      const Seconds elapsed = std::chrono::steady_clock::now() - start;
      std::uint64_t longest = nanoseconds(elapsed);
      allreduce_max(wire_, std::span(&longest, 1));
      taken.push_back(static_cast<double>(longest) / 1e9);
    }
    if (!sum.empty()) gradient_[0] += sum[0];  // or the compiler may leave the passes out
    return summarize(taken).median;
  }

  Observed exchange(int rep) {
    plan::fill_gradient(gradient_, options_.seed, rep, wire_.rank());
    const Traffic& traffic = wire_.traffic();
    const Seconds codec = session_.stats().codec;
    barrier(wire_);
    const std::uint64_t sent = traffic.bytes_sent, received = traffic.bytes_received;
    const Seconds start = wire_.now();
    session_.exchange(view());
    const Seconds elapsed = wire_.now() - start;
    session_.finish_step(view());

    Observed out;
    out.values[Observed::elapsed] = nanoseconds(elapsed);
    out.values[Observed::codec] = nanoseconds(session_.stats().codec - codec);
    out.values[Observed::sent] = traffic.bytes_sent - sent;
    out.values[Observed::received] = traffic.bytes_received - received;
    out.values[Observed::wrong] =
        exact_ ? find_wrong(gradient_, options_.seed, rep, wire_.size()) : 0;
    out.values[Observed::hash] = base::hash64(std::as_bytes(std::span(gradient_)));
    return out;
  }

  Observed agree(Observed mine) {
    std::uint64_t smallest = mine.values[Observed::hash];
    allreduce_min(wire_, std::span(&smallest, 1));
    allreduce_max(wire_, std::span(mine.values));
    identical_ = identical_ && smallest == mine.values[Observed::hash];
    return mine;
  }

  void note(const Observed& observed, int rep) {
    if (const std::uint64_t wrong = observed.values[Observed::wrong]; wrong != 0) {
      throw Error(
          fmt::format("{}: element {} of {} is not the mean of the {} workers after exchange "
                      "{}: the result is wrong",
                      options_.strategy, wrong - 1, gradient_.size(), wire_.size(), rep));
    }
    if (rep < options_.warmup) return;
    elapsed_.push_back(static_cast<double>(observed.values[Observed::elapsed]) / 1e9);
    codec_.push_back(static_cast<double>(observed.values[Observed::codec]) / 1e9);
    sent_ = std::max(sent_, observed.values[Observed::sent]);
    received_ = std::max(received_, observed.values[Observed::received]);
  }

  AllreduceResult result() const {
    AllreduceResult out;
    out.numel = gradient_.size();
    out.workers = wire_.size();
    out.reps = options_.reps;
    out.seconds = summarize(elapsed_);
    out.seconds_codec = summarize(codec_).median;
    out.bytes_per_worker = sent_;
    out.replicas_identical = identical_;
    if (options_.network) {
      const std::uint64_t busiest = std::max(sent_, received_);
      const Seconds latency = busiest > 0 ? options_.network->latency : Seconds(0);
      out.wire_bound_seconds = (options_.network->transfer_time(busiest) + latency).count();
    }
    return out;
  }

  Transport& wire_;
  const AllreduceBenchOptions& options_;
  bool exact_;
  std::vector<float> gradient_;
  Layout layout_;
  Session session_;
  std::vector<double> elapsed_, codec_;
  std::uint64_t sent_ = 0, received_ = 0;
  bool identical_ = true;
};

}  // namespace

AllreduceResult measure_allreduce(Transport& wire, const AllreduceBenchOptions& options,
                                  std::size_t numel, const RepStarted& rep_started) {
  return Measurement(wire, options, numel).run(rep_started);
}

}  // namespace thinwire::measure
