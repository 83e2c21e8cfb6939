#!/usr/bin/env bash
# The effect of each selection rule of ps on the union, bytes, time and accuracy: LeNet on MNIST, next to topk,
# gtopk and dense. Hours; a run that is already in bench/results/server.jsonl is not repeated. There is no density
# warm-up, because that of 0.1 cannot be repeated (recorded.bash).
#   bench/training/server.sh MNIST_DIR [sim|netlab]
# sim     8 simulated workers at 1 Gbit/s, densities 0.01 and 0.001, 2 epochs
# netlab  4 hosts of network namespaces at 1 Gbit/s (root), 1 epoch
# bench/server.sh measures the time of one large exchange.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/recorded.bash"
usage_unless [ $# -ge 1 ]
mnist=$1 only=${2-}
keep_in bench/results/server.jsonl

# run GROUP STRATEGY: by the command that is set.
run() { record "$1 seed 1 $2" "${command[@]}" --lr "${lr-$(rate_of ps)}" --strategy "$2" --seed 1; }

# The rule that changes nothing is magnitude: plain top-k through a server.
strategies() {  # DENSITY
  local keys given=density=$1,$sparse_keys
  printf '%s\n' "topk:$given" "gtopk:$given"
  for keys in select=magnitude select=hysteresis select=mask select=magnitude,keep=1 select=magnitude,keep=2 \
    select=hysteresis,keep=2; do
    echo "ps:$given,$keys"
  done
}

measure() {  # GROUP
  local density strategy
  run "$1" dense
  for density in 0.01 0.001; do
    for strategy in $(strategies "$density"); do
      run "$1" "$strategy"
    done
  done
  # Servers on more ranks share the sending; with a dedicated server there is one worker less.
  for strategy in ps:density=0.01,"$sparse_keys",servers={4,dedicated}; do
    run "$1" "$strategy"
  done
}

if wanted sim; then
  lenet 8 --epochs 2 --transport sim --network 1gbit,0.1ms --step-time 0.02
  measure "sim 8 workers"
  # Not all of them are stable at that rate and the lower density.
  keys=density=0.001,$sparse_keys
  for strategy in "topk:$keys" "ps:$keys",select={magnitude,hysteresis,mask}; do
    lr=0.02 run "sim 8 workers lr 0.02" "$strategy"
  done
fi
if wanted netlab && can_have_hosts; then
  lenet 4 --epochs 1 --transport gloo
  command=(tools/netlab run -n 4 --rate 1gbit -- "${command[@]}")
  measure "netlab 4 workers"
fi
