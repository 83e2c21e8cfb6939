#include "c_api/strategy_info.h"

#include "c_api/json_options.h"
#include "thinwire/launch.h"
#include "thinwire/thinwire_c.h"
#include "thinwire/version.h"

namespace thinwire::c_api {
namespace {

const char* name(SyncMode mode) {
  switch (mode) {
    case SyncMode::synchronous:
      return "synchronous";
    case SyncMode::periodic:
      return "periodic";
    case SyncMode::asynchronous:
      return "asynchronous";
  }
  return "";
}

}  // namespace

bool exchanges_models(const Strategy& strategy) {
  return dynamic_cast<const ModelStrategy*>(&strategy) != nullptr;
}

nlohmann::json library_listing() {
  nlohmann::json out = {{"version", THINWIRE_VERSION},
                        {"abi", TW_ABI_VERSION},
                        {"transports", nlohmann::json::array()},
                        {"strategies", nlohmann::json::array()}};
  for (const TransportBackend& backend : transport_backends()) {
    out["transports"].push_back({{"name", backend.name}, {"help", backend.help}});
  }
  for (const StrategyInfo& strategy : strategies()) {
    nlohmann::json keys = nlohmann::json::array();
    for (const SpecKey& key : strategy_keys(strategy.name)) {
      keys.push_back({{"name", key.name}, {"default", key.fallback}, {"allowed", key.allowed}});
    }
    const bool models = exchanges_models(*make_strategy(strategy.name));
    out["strategies"].push_back({{"name", strategy.name},
                                 {"help", strategy.help},
                                 {"exchanges", models ? "models" : "gradients"},
                                 {"keys", keys}});
  }
  return out;
}

nlohmann::json strategy_info(const char* options) {
  JsonOptions read(options, "strategy");
  const auto strategy = make_strategy(read.text("strategy", "dense"));
  const auto size = static_cast<int>(read.integer("size", 1, 1, kMostRanks));
  SgdConfig share = read.sgd();
  read.reject_unknown();
  const auto* const gradients = dynamic_cast<const GradientStrategy*>(strategy.get());
  if (gradients != nullptr && size > 1) share = gradients->optimizer_share(share);
  return {{"exchanges", gradients == nullptr ? "models" : "gradients"},
          {"sync_mode", name(sync_mode_of(*strategy))},
          {"serving_ranks", size > 1 ? serving_ranks_of(*strategy, size) : 0},
          {"momentum", share.momentum},
          {"weight_decay", share.weight_decay},
          {"nesterov", share.nesterov}};
}

}  // namespace thinwire::c_api
