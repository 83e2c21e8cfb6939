#!/usr/bin/env bash
# The passes of qsgd at 4 bits on one core: norms, encoding, adding codes, decoding, each beside r += g.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/on_core.bash"
core_options "$@"

"$build/bench/quantize" --numel "$numel" --reps "$reps" | tee -a "$lines" |
  sed -nE 's/.*"kernel":"([a-z_]+)".*"seconds_median":([0-9.e-]+).*"ratio_to_add":([0-9.]+).*/\1: \2 s, \3 x r += g/p'
