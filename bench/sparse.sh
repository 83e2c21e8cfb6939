#!/usr/bin/env bash
# One exchange of 25 M gradients over a real slow network: dense, topk and gtopk.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/in_lab.bash"
lab_options "$@"

launch() {  # STRATEGY
  lab_run "$build/thinwire" bench allreduce --transport gloo --strategy "$1" --numel "$numel" --reps "$reps" --json
}
lab_measure dense topk:density=0.001 gtopk:density=0.001
