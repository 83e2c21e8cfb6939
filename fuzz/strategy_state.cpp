#include "fuzz/target.h"
#include "testing/strategy_driver.h"
#include "thinwire/launch.h"
#include "thinwire/strategy.h"

namespace thinwire::fuzz {
namespace {

// There are two ranks, so that states are used and not only read. If one rank refuses its state,
// the other one fails as well.
void resume(std::string_view name, Bytes state) {
  JoinOptions options;
  options.size = 2;
  options.timeout = Seconds(20);
  run_workers("threads", options, [&](Transport& wire) {
    const Layout layout{{{"matrix", 0, {4, 4}}, {"bias", 16, {4}}}, 20};
    std::vector<float> params(layout.numel, 0.5f), grads(layout.numel, 0.25f);
    RunOptions run;
    run.samples = 1;  // an asynchronous run ends at once
    run.sgd.momentum = 0.5f;
    test::StrategyDriver driver(wire, name, layout, run, {}, 3);
    driver.load(state);
    driver.begin(params);
    driver.exchange(grads, params);
    driver.finish_step(params);
    driver.end(params);
    make_strategy(name)->load(driver.save());
  });
}

}  // namespace

void strategy_state(Bytes input) {
  Choices choices(input);
  const StrategyInfo& entry = strategies()[choices.below(strategies().size())];
  accept_or_refuse<WireError>([&] { make_strategy(entry.name)->load(choices.rest()); });
  accept_or_refuse<WireError, TransportError>([&] { resume(entry.name, choices.rest()); });
}

}  // namespace thinwire::fuzz
