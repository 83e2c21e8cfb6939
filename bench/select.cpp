// Selection by libtorch: r += g, torch::topk of |r|, and the winners taken out of r. Prints the
// line of `thinwire bench select --json`, so that bench/select.sh can put both into one table.
#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/measure/laplace.h"
#include "bench/measure/seconds_of.h"
#include "thinwire/stats.h"

namespace {

struct Options {
  std::size_t numel = 25'000'000;
  double density = 0.001;
  int reps = 11;
  int warmup = 3;
};

struct Selection {
  torch::Tensor indices, values;
};

Selection select(torch::Tensor& gradient, torch::Tensor& residual, std::int64_t k) {
  residual.add_(gradient);
  gradient.zero_();
  const torch::Tensor indices = std::get<1>(residual.abs().topk(k, 0, true, /*sorted=*/false));
  const torch::Tensor values = residual.index_select(0, indices);
  residual.index_fill_(0, indices, 0);
  return {indices, values};
}

// Nothing that stayed is larger than anything that went.
bool exact(const Selection& selected, const torch::Tensor& residual) {
  return selected.values.abs().min().item<float>() >= residual.abs().max().item<float>();
}

nlohmann::ordered_json measure(const Options& options) {
  const auto numel = static_cast<std::int64_t>(options.numel);
  const auto k = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(options.density * static_cast<double>(options.numel)));
  torch::Tensor fresh = torch::empty(numel), gradient = torch::empty(numel);
  torch::Tensor residual = torch::zeros(numel);
  std::vector<double> adds, selections;
  bool all_exact = true;
  for (int step = 0; step < options.warmup + options.reps; ++step) {
    thinwire::measure::fill_laplace({fresh.data_ptr<float>(), options.numel}, 1,
                                    static_cast<std::uint64_t>(step));
    gradient.copy_(fresh);
    const double add = thinwire::measure::seconds_of([&] { residual.add_(gradient); });
    Selection selected;
    const double selection =
        thinwire::measure::seconds_of([&] { selected = select(gradient, residual, k); });
    all_exact = all_exact && exact(selected, residual);
    if (step < options.warmup) continue;
    adds.push_back(add);
    selections.push_back(selection);
  }
  const thinwire::Summary seconds = thinwire::summarize(selections);
  const double add = thinwire::summarize(adds).median;
  return {{"kernel", "torch_topk"},
          {"numel", options.numel},
          {"density", options.density},
          {"k", k},
          {"seconds_median", seconds.median},
          {"seconds_min", seconds.min},
          {"seconds_max", seconds.max},
          {"add_seconds_median", add},
          {"ratio_to_add", seconds.median / add},
          {"exact", all_exact},
          {"reps", options.reps}};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Selection by libtorch, on one core.");
  app.add_option("--numel", options.numel, "floats per gradient")
      ->check(CLI::Range(1, 2'000'000'000));
  app.add_option("--density", options.density, "share that is selected")
      ->check(CLI::Range(1e-9, 1.0));
  app.add_option("--reps", options.reps, "steps that count")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  const torch::NoGradGuard no_gradients;
  fmt::print("{}\n", measure(options).dump());
}
