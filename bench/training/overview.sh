#!/usr/bin/env bash
# All strategies side by side: one epoch of LeNet on MNIST, the same global batch for all, at 1 Gbit/s and 100 Mbit/s.
# An hour; a run that is already in bench/results/overview.jsonl is not repeated.
#   bench/training/overview.sh MNIST_DIR [netlab|sim]
# netlab  4 real hosts of network namespaces (root)
# sim     8, 16 and 32 simulated workers, a step of 20 ms, 0.1 ms latency
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -ge 1 ] || { sed -n 4,6p "$0" >&2; exit 2; }
mnist=$1 only=${2-}
thinwire=${THINWIRE-build/thinwire}
results=bench/results/overview.jsonl
touch "$results"

# All at the default rate.
strategies=(dense dense:dtype=bf16 topk gtopk qsgd grandk powersgd localsgd gossip lasgd ps)

# run WHERE RATE STRATEGY COMMAND...
run() {
  local key="\"run\":\"$1 $2 $3\"" line
  grep -qF "$key" "$results" && return
  echo "== $1, $2, $3" >&2
  line=$("${@:4}" --strategy "$3" --json | tail -n 1)
  line=${line//"mnist:$mnist"/mnist}
  echo "{$key,\"rate\":\"$2\",${line#\{}" >>"$results"
}

lenet() {  # WORKERS
  command=("$thinwire" train --model lenet --data "mnist:$mnist" --workers "$1" --batch $((128 / $1)) --epochs 1
    --momentum 0.9 --lr-schedule cosine)
}
wanted() { [[ $1 == "${only:-$1}" ]]; }

if wanted netlab; then
  lenet 4
  for rate in 1gbit 100mbit; do
    for strategy in "${strategies[@]}"; do
      run "netlab 4" "$rate" "$strategy" tools/netlab run -n 4 --rate "$rate" -- "${command[@]}"
    done
  done
fi
if wanted sim; then
  for workers in 8 16 32; do
    lenet "$workers"
    for rate in 1gbit 100mbit; do
      for strategy in "${strategies[@]}"; do
        run "sim $workers" "$rate" "$strategy" "${command[@]}" --transport sim --network "$rate,0.1ms" --step-time 0.02
      done
    done
  done
fi
