// Checks the transport laws on the backends that run in one process, with and without wrappers.
// tests/gloo_law_test.cpp and tests/mpi_law_test.cpp check them on gloo and mpi with real
// processes.
#include <gtest/gtest.h>

#include "tests/laws.h"
#include "thinwire/launch.h"

namespace thinwire::transport {
namespace {

struct Case {
  std::string name;
  std::string_view transport;
  std::optional<Network> network;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const TransportBackend& backend : transport_backends()) {
    if (!backend.in_process) continue;
    out.push_back({std::string(backend.name), backend.name, std::nullopt});
    if (backend.name == "threads") {
      out.push_back({"shaped", backend.name, Network{20e9, Seconds(100e-6)}});
    }
  }
  return out;
}

class TransportLaw : public testing::TestWithParam<std::tuple<Case, laws::Law>> {};

TEST_P(TransportLaw, Holds) {
  const auto& [setting, law] = GetParam();
  JoinOptions options;
  options.size = law.ranks;
  options.network = setting.network;
  run_workers(setting.transport, options, law.check);
}

INSTANTIATE_TEST_SUITE_P(All, TransportLaw,
                         testing::Combine(testing::ValuesIn(cases()),
                                          testing::ValuesIn(laws::all().begin(),
                                                            laws::all().end())),
                         [](const auto& law) {
                           return std::get<0>(law.param).name + "_" +
                                  std::string(std::get<1>(law.param).name);
                         });

}  // namespace
}  // namespace thinwire::transport
