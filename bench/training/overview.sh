#!/usr/bin/env bash
# All strategies side by side: one epoch of LeNet on MNIST, the same global batch for all, at
# 1 Gbit/s and 100 Mbit/s.
# An hour; a run that is already in bench/results/overview.jsonl is not repeated.
#   bench/training/overview.sh MNIST_DIR [netlab|sim]
# netlab  4 real hosts of network namespaces (root)
# sim     8, 16 and 32 simulated workers, a step of 20 ms, 0.1 ms latency
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/recorded.bash"
usage_unless [ $# -ge 1 ]
mnist=$1 only=${2-}
keep_in bench/results/overview.jsonl

strategies=(dense dense:dtype=bf16 topk gtopk qsgd grandk powersgd localsgd gossip
  gossip:bits=4,kappa=0.5,peers=exp lasgd ps)

# run WHERE COMMAND...: on the network and by the strategy that are set. Who is lost may bear a lower learning rate.
run() {
  local lr name="$1 $rate $strategy"
  lr=$(rate_of "$strategy" "$workers")
  record "$name" "${@:2}" --lr "$lr" --strategy "$strategy"
  for _ in 1 2 3; do
    was_lost "$name" || return 0
    lr=$(awk "BEGIN { print $lr / 2 }")
    name="$1 $rate $strategy lr $lr"
    record "$name" "${@:2}" --lr "$lr" --strategy "$strategy"
  done
}
fields() { echo "\"rate\":\"$rate\","; }

if wanted netlab; then
  workers=4
  lenet "$workers" --epochs 1
  for rate in 1gbit 100mbit; do
    for strategy in "${strategies[@]}"; do
      run "netlab 4" tools/netlab run -n 4 --rate "$rate" -- "${command[@]}"
    done
  done
fi
if wanted sim; then
  for workers in 8 16 32; do
    lenet "$workers" --epochs 1
    for rate in 1gbit 100mbit; do
      for strategy in "${strategies[@]}"; do
        run "sim $workers" "${command[@]}" --transport sim --network "$rate,0.1ms" --step-time 0.02
      done
    done
  done
fi
