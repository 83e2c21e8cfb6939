#!/usr/bin/env bash
# Selection of the largest entries on one core: ours beside std::nth_element and, where libtorch is
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
  } | sed "s/^{/{\"load\":$load,/" | tee -a "$lines" |
    sed -nE 's/.*"kernel":"([a-z_]+)".*"density":([0-9.e-]+).*"seconds_median":([0-9.e-]+).*"ratio_to_add":([0-9.]+).*/\2 \1: \3 s, \4 x r += g/p'
done
