#include "base/spec.h"
#include "fuzz/target.h"
#include "thinwire/strategy.h"

namespace thinwire::fuzz {

void spec_text(Bytes input) {
  const std::string_view text = Choices(input).text();
  accept_or_refuse<ConfigError>([&] {
    const std::string again = base::Spec::parse(text).str();
    demand(base::Spec::parse(again).str() == again);
  });
  accept_or_refuse<ConfigError>([&] { make_strategy(text); });
}

}  // namespace thinwire::fuzz
