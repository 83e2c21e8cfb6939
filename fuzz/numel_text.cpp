#include "cli/flag_values.h"
#include "fuzz/target.h"

namespace thinwire::fuzz {

void numel_text(Bytes input) {
  accept_or_refuse<ConfigError>([&] {
    for (const std::size_t numel : cli::parse_numels(Choices(input).text())) demand(numel > 0);
  });
}

}  // namespace thinwire::fuzz
