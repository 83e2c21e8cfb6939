#!/usr/bin/env bash
# Selection of the largest entries on one core: thinwire's, std::nth_element and, where libtorch is
# built in, torch::topk. Each is compared with r += g on the same memory in the same run.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/on_core.bash"
densities="0.0001 0.001 0.01 0.0625 0.25"
allowed+=(densities)
core_options "$@"

for density in $densities; do
  read -r load _ </proc/loadavg
  {
    "$build/thinwire" bench select --numel "$numel" --density "$density" --reps "$reps" --json
    if [ -x "$build/bench/select" ]; then
      "$build/bench/select" --numel "$numel" --density "$density" --reps "$reps"
    fi
  } | bench/records.py extend load:="$load" | tee -a "$lines" |
    bench/records.py show '{density} {kernel}: {seconds_median} s, {ratio_to_add:.2f} x r += g'
done
