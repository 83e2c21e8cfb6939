#include "native.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "thinwire/error.h"
#include "thinwire/stats.h"

namespace thinwire::bench {
namespace {

// Not exactly representable, so that the order of additions shows in the last bits.
float input(std::size_t index, int rank) {
  const auto mixed = (static_cast<std::uint32_t>(index) + 1u) * 2654435761u +
                     static_cast<std::uint32_t>(rank) * 40503u;
  return static_cast<float>(mixed >> 8) / 16777216.0f - 0.5f + 0.1f;
}

void fill(std::span<float> data, int rank) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = input(i, rank);
}

bool sum_is_right(std::span<const float> data, int size) {
  constexpr std::size_t kStride = 997;  // a sample; replicas are compared in full
  for (std::size_t i = 0; i < data.size(); i += kStride) {
    double expected = 0;
    for (int rank = 0; rank < size; ++rank) expected += input(i, rank);
    if (!(std::abs(data[i] - expected) <= 1e-6 * size)) return false;
  }
  return true;
}

// FNV-1a over the words; 32 bits, so that it passes through a double unharmed.
std::uint32_t fingerprint(std::span<const float> data) {
  std::uint64_t hash = 14695981039346656037u;
  for (const float value : data) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 1099511628211u;
  }
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

bool same(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

// What the interface has sent so far, headers and acknowledgements included.
double sent_bytes(const std::string& interface) {
  std::ifstream counter("/sys/class/net/" + interface + "/statistics/tx_bytes");
  double bytes = 0;
  if (!(counter >> bytes)) {
    throw std::runtime_error(fmt::format(
        "interface '{}' not found; --interface names the one that carries the traffic", interface));
  }
  return bytes;
}

NativeOptions parse(CLI::App& app, int argc, char** argv, bool needs_store) {
  NativeOptions options;
  std::string network = "unlimited";
  app.add_option("--numel", options.numel, "floats to sum")->check(CLI::Range(1, 2'000'000'000));
  app.add_option("--reps", options.reps, "timed repetitions after one warm-up")
      ->check(CLI::Range(1, 1000));
  app.add_option("--network", network, "each worker's link, such as 1gbit: for the wire bound");
  app.add_option("--interface", options.interface, "interface that carries the traffic");
  if (needs_store) {
    app.add_option("--store", options.store, "an empty directory that all ranks see")->required();
  }
  app.parse(argc, argv);
  options.network = Network::parse(network);
  return options;
}

struct Measured {
  Summary seconds;  // of the slowest worker in each repetition
  double bytes_per_worker = 0;
  bool replicas_identical = true;
};

double measure_once(NativeGroup& group, std::span<float> data) {
  fill(data, group.rank());
  group.allgather(0);
  const auto start = std::chrono::steady_clock::now();
  group.allreduce_sum(data);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const std::vector<double> all = group.allgather(taken.count());
  return *std::max_element(all.begin(), all.end());
}

Measured measure(NativeGroup& group, const NativeOptions& options) {
  std::vector<float> data(options.numel);
  Measured measured;
  std::vector<double> seconds;
  double sent_before = 0;
  for (int rep = -1; rep < options.reps; ++rep) {
    const double taken = measure_once(group, data);
    if (!sum_is_right(data, group.size())) {
      throw std::runtime_error(
          fmt::format("native all-reduce: the sum is wrong ({} elements, {} "
                      "ranks)",
                      data.size(), group.size()));
    }
    measured.replicas_identical &= same(group.allgather(fingerprint(data)));
    if (rep < 0) {
      sent_before = sent_bytes(options.interface);
    } else {
      seconds.push_back(taken);
    }
  }
  const std::vector<double> sent = group.allgather(sent_bytes(options.interface) - sent_before);
  measured.seconds = summarize(std::move(seconds));
  measured.bytes_per_worker =
      std::accumulate(sent.begin(), sent.end(), 0.0) / group.size() / options.reps;
  return measured;
}

void report(const NativeProgram& program, const NativeOptions& options, const Measured& measured,
            int workers) {
  // Reduce-scatter and all-gather: each worker sends all chunks but one, twice.
  const double ring_bytes =
      2.0 * (workers - 1) / workers * 4.0 * static_cast<double>(options.numel);
  nlohmann::ordered_json line{
      {"strategy", program.strategy},
      {"numel", options.numel},
      {"workers", workers},
      {"transport", program.transport},
      {"seconds_median", measured.seconds.median},
      {"seconds_min", measured.seconds.min},
      {"seconds_max", measured.seconds.max},
      {"seconds_codec", 0.0},
      {"bytes_per_worker", std::llround(measured.bytes_per_worker)},
      {"wire_bound_seconds", nullptr},
      {"replicas_identical", measured.replicas_identical},
      {"reps", options.reps},
  };
  if (options.network.bits_per_second > 0) {
    line["wire_bound_seconds"] = 8 * ring_bytes / options.network.bits_per_second;
  }
  fmt::print("{}\n", line.dump());
}

}  // namespace

int run_native(int argc, char** argv, const NativeProgram& program) {
  CLI::App app(program.strategy + ": all-reduce of floats by the library itself");
  NativeOptions options;
  try {
    options = parse(app, argc, argv, program.needs_store);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const ConfigError& error) {
    fmt::print(stderr, "{}: {}\n", program.strategy, error.what());
    return 2;
  }
  try {
    const auto group = program.join(options);
    const Measured measured = measure(*group, options);
    if (group->rank() == 0) report(program, options, measured, group->size());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program.strategy, error.what());
    return 1;
  }
  return 0;
}

}  // namespace thinwire::bench
