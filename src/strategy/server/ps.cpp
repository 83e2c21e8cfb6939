// A parameter server with union-aware selection (Wang, Liu, Wu, ICNCC 2018): each worker pushes its
// picks to a server, which adds them up and sends the sum back to all. It sends the union of all
// picks, up to P times as many entries as one worker picks. To keep it small, workers prefer
// coordinates that came back before, which all of them know, or the server keeps some entries for
// later. docs/server.md describes the rules.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/number.h"
#include "base/spec.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/state.h"
#include "strategy/server/shard_exchange.h"
#include "strategy/server/union_selection.h"
#include "strategy/sparse/pick_outcomes.h"
#include "strategy/sparse/sparse_strategy.h"
#include "transport/payload_scale.h"

namespace thinwire::strategy {
namespace {

// With fewer coordinates per shard, a smaller union saves little and costs accuracy.
constexpr std::size_t kFewestPerShard = 100;
constexpr double kRamp = 0.05;  // share of the run over which lambda grows from 0
constexpr int kMostServers = 4096;

struct Servers {
  int count = 1;
  bool dedicated = false;  // whether rank 0 only serves

  static Servers read(base::Spec& spec) {
    const std::string text = spec.text("servers", "1", "1 ... 4096, or dedicated");
    if (text == "dedicated") return {1, true};
    const auto count = base::parse_number<int>(text);
    if (!count || *count < 1 || *count > kMostServers) {
      throw ConfigError(
          fmt::format("ps: the number of servers is not allowed ({}); use 1 ... {} or dedicated",
                      text, kMostServers));
    }
    return {*count, false};
  }
};

// Returns how many times k coordinates the servers send; 0 means all.
double read_keep(base::Spec& spec) {
  const std::string text = spec.text("keep", "all", "all, or how many times k: 0.01 ... 1000");
  if (text == "all") return 0;
  const auto keep = base::parse_number<double>(text);
  if (!keep || !(*keep >= 0.01) || *keep > 1000) {
    throw ConfigError(fmt::format(
        "ps: keep is not allowed ({}); use all, or a multiple of k, 0.01 ... 1000", text));
  }
  return *keep;
}

SelectionRule read_rule(base::Spec& spec) {
  static constexpr std::string_view kRules[] = {"hysteresis", "magnitude", "mask"};
  const std::string word = spec.choice("select", kRules);
  return static_cast<SelectionRule>(std::ranges::find(kRules, word) - std::begin(kRules));
}

class ParameterServer final : public SparseStrategy {
 public:
  explicit ParameterServer(base::Spec& spec)
      : SparseStrategy(spec, {.density = 0.01, .small = false, .select = false}),
        memory_(read_rule(spec)) {
    preference_.lambda = static_cast<float>(spec.number("lambda", 1, 0, 1000));
    preference_.quota = spec.number("quota", 0.25, 0, 1);
    keep_ = read_keep(spec);
    servers_ = Servers::read(spec);
  }

  int serving_ranks(int) const override { return servers_.dedicated ? 1 : 0; }

  void begin(const StrategyContext& context) override {
    const int ranks = context.wire.size();
    if (servers_.count > ranks) {
      throw ConfigError(
          fmt::format("ps: there are more servers ({}) than ranks ({}); use at most {}",
                      servers_.count, ranks, ranks));
    }
    SparseStrategy::begin(context);
    memory_.begin(context.layout.numel, servers_.count);
    exchange_.open(context.wire, memory_);
    warn(context);
  }

  std::vector<Metric> metrics() const override {
    std::vector<Metric> out = SparseStrategy::metrics();
    const ShardExchange::Tally& tally = exchange_.tally();
    // These are per step of all ranks together, so only one rank counts the steps.
    const double steps = counts_ ? steps_ : 0;
    out.push_back({"union_over_k", united_, picked_});
    out.push_back({"overlap", repeated_, united_});
    out.push_back({"bytes_up", tally.bytes_up, steps});
    out.push_back({"bytes_down", tally.bytes_down, steps});
    out.push_back({"server_seconds", exchange_.server_busy().count(), steps, {}, true});
    static constexpr std::string_view kForms[message::kShardForms] = {"rice", "bitmap", "relative",
                                                                      "dense"};
    for (std::size_t form = 0; form < message::kShardForms; ++form) {
      double messages = 0;
      for (const double each : tally.forms) messages += each;
      out.push_back({std::string(kForms[form]), tally.forms[form], messages, "message_forms"});
    }
    return out;
  }

  CostProfile cost_profile() const override {
    return {.server_seconds = exchange_.server_busy().count()};
  }

 private:
  bool has_many(const Transport& wire, std::size_t k) const {
    return transport::represented_bytes(wire, k) >=
           kFewestPerShard * static_cast<std::size_t>(servers_.count);
  }

  // Warns if the options ask for something that will not happen.
  void warn(const StrategyContext& context) {
    if (context.wire.rank() != 0 || std::exchange(warned_, true)) return;
    const std::size_t numel = context.layout.numel;
    const auto k = static_cast<std::size_t>(density() * static_cast<double>(numel));
    if (k < numel && is_dense_shorter(context.wire, numel, k)) {
      context.warn(fmt::format(
          "ps: servers={} would send more bytes to {} ranks than a dense all-reduce, so that every "
          "step is dense; use servers={}, a lower density, or keep=1",
          servers_.count, context.wire.size(), context.wire.size()));
    } else if (memory_.rule() != SelectionRule::magnitude && !has_many(context.wire, k)) {
      context.warn(fmt::format(
          "ps: too few coordinates to make the union smaller (density {:g} of {} parameters is {} "
          "coordinates for servers={}; each needs {}), so that workers select by magnitude alone; "
          "use a higher density or fewer servers",
          density(), transport::represented_bytes(context.wire, numel),
          transport::represented_bytes(context.wire, k), servers_.count, kFewestPerShard));
    }
  }

  // lambda grows over the first steps: at the start of training the large coordinates still change.
  Preference preference_at(const GradientStep& context, std::size_t k) const {
    Preference out = preference_;
    const double ramp = kRamp * static_cast<double>(context.run.steps);
    const double grown = ramp > 0 ? std::min(1.0, static_cast<double>(context.step) / ramp) : 1;
    out.lambda *= static_cast<float>(grown);
    return bounded(out, static_cast<double>(k) / static_cast<double>(context.layout.numel));
  }

  void pick(const GradientStep& context, const kernel::Accumulation& accumulation, std::size_t k,
            Sparse& picks) override {
    if (!has_many(context.wire, k) || safeguards().clip) {
      return selection_.select_largest(accumulation, k, picks);
    }
    selection_.select(accumulation, k, memory_, preference_at(context, k), picks);
  }

  bool exchange_picks(const GradientStep& context, std::size_t k) override {
    ShardExchange::StepOptions options;
    options.step = context.step;
    options.picked = k_ = k;
    if (keep_ > 0) {
      options.kept = static_cast<std::size_t>(std::ceil(keep_ * static_cast<double>(k)));
    }
    workers_ = context.workers();
    options.first_worker = context.first_worker;
    options.values = value_coding();
    exchange_.run(context, options, memory_, picks());
    counts_ = context.wire.rank() == 0;
    bool finite = true;
    timed_codec(context, [&] { finite = apply(context.grads); });
    return finite;
  }

  // Writes the means of the sums that came back. Returns whether all are finite.
  bool apply(MutFloats gradients) {
    bool finite = true;
    changed_.clear();
    for (std::size_t shard = 0; shard < memory_.shards(); ++shard) {
      const Sparse& sums = exchange_.aggregates()[shard];
      const MutFloats part = gradients.subspan(memory_.range(shard).begin);
      for (std::size_t j = 0; j < sums.size(); ++j) {
        const float mean = sums.values[j] / static_cast<float>(workers_);
        part[sums.indices[j]] = mean;
        changed_.push_back(
            static_cast<std::uint32_t>(memory_.range(shard).begin + sums.indices[j]));
        finite = finite && std::isfinite(mean);
      }
    }
    return finite;
  }

  void return_unapplied() override {
    exchange_.commit();
    look_up(picks().indices, changed_, [&](std::size_t j, bool found) {
      // Servers with `keep` withhold some picks for later steps.
      sent(picks().indices[j], found || keep_ == 0);
    });
    count_selected(picks().indices);
    ++steps_;
    picked_ += static_cast<double>(k_);
    for (std::size_t shard = 0; shard < memory_.shards(); ++shard) {
      const std::size_t bytes = exchange_.push_messages()[shard].size();
      if (bytes > 0) {  // this rank sends no message to its own server
        const std::size_t entries = exchange_.pushes()[shard].size();
        count_message(memory_.range(shard).size(), entries, bytes);
      }
      const auto& united = exchange_.aggregates()[shard].indices;
      united_ += static_cast<double>(united.size());
      look_up(united, memory_.mask(shard), [&](std::size_t, bool found) { repeated_ += found; });
    }
    memory_.observe(k_, exchange_.aggregates());
  }

  void withdraw() noexcept override { exchange_.roll_back(); }

  std::span<const std::uint32_t> changed() const override { return changed_; }

  // The server of a shard sends its part of the union to all other ranks. This assumes picks at
  // random, which make the union large.
  double busiest_bytes(std::size_t numel, std::size_t k, int ranks) const override {
    const auto all = static_cast<double>(numel);
    const double missed = std::pow(1 - static_cast<double>(k) / all, ranks - serving_ranks(ranks));
    double united = all * (1 - missed);
    if (keep_ > 0) united = std::min(united, keep_ * static_cast<double>(k));
    const double down = message_bytes(numel, static_cast<std::size_t>(united)) * (ranks - 1);
    return message_bytes(numel, k) + down / servers_.count;
  }
  double applied(int workers) const override { return keep_ > 0 ? keep_ : workers; }
  std::string dense_remark() const override { return {}; }  // warn() says it

  void save_exchange(base::ByteWriter& out) const override {
    memory_.save(out);
    put_floats(out, exchange_.server_residual());
    out.put<std::uint32_t>(warned_ ? 1 : 0);
  }
  void load_exchange(base::ByteReader& in) override {
    memory_.load(in);
    exchange_.load(get_floats(in));
    warned_ = in.get<std::uint32_t>() != 0;
  }

  UnionMemory memory_;
  Preference preference_;
  double keep_ = 0;
  Servers servers_;
  UnionSelection selection_;
  ShardExchange exchange_;
  bool warned_ = false;  // at the begin of the run
  // State of the current step:
  std::size_t k_ = 0;
  int workers_ = 1;
  std::vector<std::uint32_t> changed_;  // by the last exchange
  // Sums over the run:
  bool counts_ = false;  // whether this rank counts the steps
  double steps_ = 0, united_ = 0, picked_ = 0, repeated_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_ps(base::Spec& spec) {
  return std::make_unique<ParameterServer>(spec);
}

}  // namespace thinwire::strategy
