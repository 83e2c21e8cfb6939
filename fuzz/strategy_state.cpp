#include "fuzz/target.h"
#include "thinwire/launch.h"
#include "thinwire/strategy.h"

namespace thinwire::fuzz {
namespace {

// Two ranks, so that states are used and not merely read. A rank that refuses takes the other
// along.
void resume(std::string_view name, Bytes state) {
  JoinOptions options;
  options.size = 2;
  options.timeout = Seconds(20);
  run_workers("threads", options, [&](Transport& wire) {
    const Layout layout{{{"matrix", 0, {4, 4}}, {"bias", 16, {4}}}, 20};
    std::vector<float> params(layout.numel, 0.5f), grads(layout.numel, 0.25f);
    Stats stats;
    StepContext context{3, {params, grads, layout}, wire, stats};
    context.run.samples = 1;  // a run asynchronously ends at once
    context.run.sgd.momentum = 0.5f;
    const auto strategy = make_strategy(name);
    strategy->load(state);
    strategy->begin(context);
    strategy->after_backward(context);
    strategy->after_step(context);
    strategy->end(context);
    Payload saved;
    strategy->save(saved);
    make_strategy(name)->load(saved);
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
