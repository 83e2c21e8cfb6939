// A step of several buckets is made by all of them or by none: what one bucket has exchanged in
// vain is not lost.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "base/bytes.h"
#include "strategy/common/state.h"
#include "testing/expect.h"
#include "testing/ranks.h"
#include "testing/strategy_run.h"
#include "thinwire/error.h"
#include "thinwire/session.h"

namespace thinwire {
namespace {

constexpr std::size_t kRows = 40, kColumns = 30, kMatrix = kRows * kColumns;
constexpr std::size_t kNumel = kMatrix + kColumns, kBuckets = 3;  // elements of each bucket
constexpr int kWorkers = 4;                                       // a power of two: means are exact

Layout layout_of_buckets() {
  Layout out;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    out.tensors.push_back({fmt::format("matrix{}", i), out.numel, {kRows, kColumns}});
    out.tensors.push_back({fmt::format("bias{}", i), out.numel + kMatrix, {kColumns}});
    out.numel += kNumel;
  }
  return out;
}
const Layout kLayout = layout_of_buckets();

// Returns what the strategies hold back: each state begins with its version and the residual.
std::vector<float> held_back(const Session& session) {
  Payload bytes;
  session.save(bytes);
  base::ByteReader reader(bytes, "session");
  reader.get<std::uint32_t>();
  std::vector<float> out;
  for (auto buckets = reader.get<std::uint64_t>(); buckets > 0; --buckets) {
    base::ByteReader state(reader.take(reader.get<std::uint64_t>()), "strategy");
    if (state.left() > 0) state.get<std::uint32_t>();
    const std::vector<float> part =
        state.left() > 0 ? strategy::get_floats(state) : std::vector<float>();
    out.insert(out.end(), part.begin(), part.end());
    out.resize(((out.size() + kNumel - 1) / kNumel) * kNumel);
  }
  out.resize(kLayout.numel);
  return out;
}

class Buckets : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Buckets,
                         testing::Values("topk:density=0.1,warmup=none",
                                         "topk:density=0.1,warmup=none,small=dense",
                                         "topk:density=1", "gtopk:density=0.1,warmup=none",
                                         "ps:density=0.1,warmup=none,values=fp32",
                                         "grandk:density=0.4,warmup=none",
                                         "powersgd:rank=2,start=0"));

// Step 1 is skipped because of one gradient in the last bucket. The gradients of the first two were
// exchanged, and are applied later.
TEST_P(Buckets, LoseNothingIfOneIsSkipped) {
  std::mutex mutex;
  std::vector<double> open(2 * kNumel);  // contributed, and neither applied nor held back
  test::on_ranks(kWorkers, [&](Transport& wire) {
    SessionOptions options;
    options.strategy = GetParam();
    options.buckets = kBuckets;
    options.check_every = 1;
    Session session(wire, options);
    std::vector<float> params(kLayout.numel), grads(kLayout.numel);
    const ModelView model{params, grads, kLayout};
    session.begin(model, 0);
    ASSERT_EQ(session.buckets().size(), kBuckets);
    std::vector<double> own(open.size());
    for (std::uint64_t step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < grads.size(); ++i) {
        grads[i] = test::grid_gradient(wire.rank(), step, i);
        if (i < own.size()) own[i] += static_cast<double>(grads[i]);
      }
      const bool bad = step == 1 && wire.rank() == 2;
      if (bad) grads.back() = std::numeric_limits<float>::quiet_NaN();
      const Update update = session.exchange(model);
      EXPECT_EQ(update.skip, step == 1);
      for (std::size_t i = 0; i < own.size() && !update.skip; ++i) {
        own[i] -= static_cast<double>(grads[i]);  // on each worker: in all P times the mean
      }
      session.apply(model, update, 0.5f);
      session.finish_step(model);
    }
    const std::vector<float> residual = held_back(session);
    const std::scoped_lock lock(mutex);
    for (std::size_t i = 0; i < open.size(); ++i) {
      open[i] += own[i] - static_cast<double>(residual[i]);
    }
  });
  // PowerSGD exchanges biases as they are and holds back nothing of them.
  const bool has_bias = !std::string_view(GetParam()).starts_with("powersgd");
  double worst = 0;
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (has_bias || i % kNumel < kMatrix) worst = std::max(worst, std::abs(open[i]));
  }
  EXPECT_LT(worst, 1e-4);
}

// Counts what the session does with it. The bucket that begins with `failing` throws in step 1.
class Counted final : public GradientStrategy {
 public:
  Counted(std::string failing, std::vector<std::string>& calls)
      : failing_(std::move(failing)), calls_(calls) {}
  std::string describe() const override { return "counted"; }
  void begin(const StrategyContext& context) override {
    name_ = context.layout.tensors[0].name;
    context.inform("it begins");
  }
  Update exchange(const GradientStep& step) override {
    if (step.step == 1 && name_ == failing_) throw WireError("a message is damaged");
    calls_.push_back("exchange " + name_);
    if (step.step == 0) step.warn("it goes on");
    return Update::dense();
  }
  void return_update(const GradientStep& step) override {
    EXPECT_EQ(step.step, 1u);
    EXPECT_EQ(step.grads.size(), kNumel);
    calls_.push_back("give back " + name_);
  }

 private:
  std::string failing_, name_;
  std::vector<std::string>& calls_;
};

using Calls = std::vector<std::string>;

// Rank 0's calls in step 1, and all that it logged.
Calls calls_of(const std::string& failing, Calls* said = nullptr) {
  Calls out;
  test::on_ranks(2, [&](Transport& wire) {
    Calls calls;
    SessionOptions options;
    options.buckets = kBuckets;
    options.make_strategy = [&] { return std::make_unique<Counted>(failing, calls); };
    if (wire.rank() == 0 && said != nullptr) {
      options.log = [said](LogLevel, std::string_view text) { said->emplace_back(text); };
    }
    Session session(wire, options);
    std::vector<float> params(kLayout.numel), grads(kLayout.numel, 1.0f);
    const ModelView model{params, grads, kLayout};
    session.begin(model, 0);
    session.apply(model, session.exchange(model), 0.5f);
    session.finish_step(model);
    calls.clear();
    if (failing.empty()) {
      session.exchange(model);
    } else {
      EXPECT_THROW(session.exchange(model), WireError);
    }
    if (wire.rank() == 0) out = calls;
  });
  return out;
}

TEST(BucketsOfAStep, AreGivenBackIfOneFails) {
  EXPECT_EQ(calls_of(""), (Calls{"exchange matrix0", "exchange matrix1", "exchange matrix2"}));
  EXPECT_EQ(calls_of("matrix0"), Calls{});
  EXPECT_EQ(calls_of("matrix2"), (Calls{"exchange matrix0", "exchange matrix1", "give back matrix0",
                                        "give back matrix1"}));
}

TEST(BucketsOfAStep, AreNamedInWhatTheySay) {
  Calls said;
  calls_of("", &said);
  EXPECT_EQ(said, (Calls{"it begins", "bucket 1 of 3: it goes on", "bucket 2 of 3: it goes on",
                         "bucket 3 of 3: it goes on"}));
}

}  // namespace
}  // namespace thinwire
