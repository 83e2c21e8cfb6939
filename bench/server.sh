#!/usr/bin/env bash
# One exchange of 25 M gradients over a real slow network: ps by every selection rule, topk and gtopk, at two
# densities.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/in_lab.bash"
lab_options "$@"

launch() {  # STRATEGY
  lab_run "$build/thinwire" bench allreduce --transport gloo --strategy "$1" --numel "$numel" --reps "$reps" --json
}

strategies=()
for density in 0.01 0.001; do
  strategies+=("topk:density=$density" "gtopk:density=$density")
  for keys in select=magnitude select=hysteresis select=mask select=magnitude,keep=1 select=hysteresis,servers=4; do
    strategies+=("ps:density=$density,$keys")
  done
done
lab_measure "${strategies[@]}"
