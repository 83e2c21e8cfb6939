#!/usr/bin/env bash
# All strategies side by side: LeNet on MNIST, the same global batch for all.
# An hour; a run that is already in bench/results/overview.jsonl is not repeated. The strategies have the defaults
# of 0.1, without its density warm-up (recorded.bash).
#   bench/training/overview.sh MNIST_DIR [thin|netlab|sim]
# thin    three epochs, 8 simulated workers at 100 Mbit/s: time to an accuracy
# netlab  one epoch, 4 hosts of network namespaces (root), at 1 Gbit/s and 100 Mbit/s
# sim     one epoch, 8, 16 and 32 simulated workers at both rates, a step of 20 ms, 0.1 ms latency
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/recorded.bash"
usage_unless [ $# -ge 1 ]
mnist=$1 only=${2-}
keep_in bench/results/overview.jsonl

ps=ps:density=0.01,$sparse_keys
strategies=(dense dense:dtype=bf16 {topk,gtopk}:density=0.001,"$sparse_keys" qsgd "$grandk" powersgd:rank=1,start=100
  localsgd "$gossip" gossip:bits=4,kappa=0.5,peers=exp lasgd "$ps")

# run WHERE COMMAND...: on the network and by the strategy that are set. A run that diverges is repeated at half the
# learning rate.
run() {
  local lr name="$1 $rate $strategy"
  lr=$(rate_of "$strategy" "$workers")
  for _ in 1 2 3 4; do
    rm -rf "$scratch/run"
    record "$name" "${@:2}" --lr "$lr" --strategy "$strategy"
    was_lost "$name" || return 0
    lr=$(awk "BEGIN { print $lr / 2 }")
    name="$1 $rate $strategy lr $lr"
  done
}
fields() { echo "rate=$rate" && curve; }

# In the 1407 steps of three epochs a density of 0.01 changes each parameter 14 times, and rank 2 is as good as dense.
if wanted thin; then
  workers=8 rate=100mbit
  lenet "$workers" --epochs 3 --seed 1 --transport sim --network "$rate,0.1ms" --step-time 0.02 --eval-every 94
  for strategy in dense dense:dtype=bf16 {topk,gtopk}:density=0.01,"$sparse_keys" qsgd "$grandk" \
    powersgd:rank=2,start=100 localsgd "$gossip" lasgd "$ps"; do
    run "thin $workers" "${command[@]}" --out "$scratch/run"
  done
fi
if wanted netlab && can_have_hosts; then
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
