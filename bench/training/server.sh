#!/usr/bin/env bash
# What each selection metric of ps makes of the union, of bytes, time and accuracy: LeNet on MNIST, beside topk,
# gtopk and dense. Hours; a run that is already in bench/results/server.jsonl is not repeated.
#   bench/training/server.sh MNIST_DIR [sim|netlab]
# sim     8 simulated workers at 1 Gbit/s, densities 0.01 and 0.001, 3 seeds
# netlab  4 real hosts of network namespaces at 1 Gbit/s (root), one seed
# The time of one large exchange is bench/server.sh's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -ge 1 ] || { sed -n 4,7p "$0" >&2; exit 2; }
mnist=$1 only=${2-}
thinwire=${THINWIRE-build/thinwire}
results=bench/results/server.jsonl
touch "$results"

# run GROUP STRATEGY SEED COMMAND...: the command is that of a training run but strategy and seed.
run() {
  local key="\"run\":\"$1 seed $3 $2\"" line
  grep -qF "$key" "$results" && return
  echo "== $1, seed $3, $2" >&2
  line=$("${@:4}" --strategy "$2" --seed "$3" --json | tail -n 1)
  line=${line//"mnist:$mnist"/mnist}
  echo "{$key,${line#\{}" >>"$results"
}

# A metric that changes nothing is magnitude, which is plain top-k through a server.
strategies() {  # DENSITY
  local keys
  printf '%s\n' "topk:density=$1" "gtopk:density=$1"
  for keys in select=magnitude select=hysteresis select=mask select=frequency,lambda=2 select=age select=leader \
    select=magnitude,keep=1 select=magnitude,keep=2 select=hysteresis,keep=2; do
    echo "ps:density=$1,$keys"
  done
}

lenet() {  # WORKERS
  command=("$thinwire" train --model lenet --data "mnist:$mnist" --workers "$1" --batch $((128 / $1))
    --epochs "${EPOCHS-3}" --lr 0.05 --momentum 0.9 --lr-schedule cosine)
}

# All strategies before the next seed, so that the first table is complete early.
measure() {  # GROUP SEED...
  local group=$1 seed density strategy
  for seed in "${@:2}"; do
    run "$group" dense "$seed" "${command[@]}"
    for density in 0.01 0.001; do
      for strategy in $(strategies "$density"); do
        run "$group" "$strategy" "$seed" "${command[@]}"
      done
    done
    # Servers on more ranks, or on one of its own, share the sending; the union is the same.
    for strategy in ps:servers=4 ps:servers=dedicated; do
      run "$group" "$strategy" "$seed" "${command[@]}"
    done
  done
}

wanted() { [[ $1 == "${only:-$1}" ]]; }

if wanted sim; then
  lenet 8
  command+=(--transport sim --network 1gbit,0.1ms --step-time 0.02)
  measure "sim 8 workers" 1 2 3
fi
if wanted netlab; then
  lenet 4
  command=(tools/netlab run -n 4 --rate 1gbit -- "${command[@]}" --transport gloo)
  measure "netlab 4 workers" 1
fi
