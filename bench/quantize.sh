#!/usr/bin/env bash
# The passes of qsgd at 4 bits on one core: norms, encoding, adding codes, decoding, each compared with r += g.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/on_core.bash"
core_options "$@"

"$build/bench/quantize" --numel "$numel" --reps "$reps" | tee -a "$lines" |
  bench/records.py show '{kernel}: {seconds_median} s, {ratio_to_add:.2f} x r += g'
