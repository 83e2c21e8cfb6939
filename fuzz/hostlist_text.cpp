#include "launch/hostlist.h"

#include "fuzz/target.h"

namespace thinwire::fuzz {

void hostlist_text(Bytes input) {
  accept_or_refuse<ConfigError>(
      [&] { demand(!launch::expand_hostlist(Choices(input).text(), "SLURM_NODELIST").empty()); });
}

}  // namespace thinwire::fuzz
