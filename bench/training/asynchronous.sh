#!/usr/bin/env bash
# What gossip and lasgd save, and at what accuracy: LeNet on MNIST and ResNet-20 on CIFAR-10. Hours; a run
# that is already in bench/results/asynchronous.jsonl is not repeated.
#   bench/training/asynchronous.sh MNIST_DIR CIFAR10_DIR [traffic|time|speed|netlab|resnet20]
# traffic  bytes and accuracy of gossip every step, by change, and by the fixed period of equal traffic
# time     the same on thin wires, dense beside
# speed    dense, localsgd, gossip and lasgd, workers equally fast and one 3 times slower (simulated)
# netlab   the same on real hosts of network namespaces (root)
# resnet20 traffic for ResNet-20
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -ge 2 ] || { sed -n 4,9p "$0" >&2; exit 2; }
mnist=$1 cifar10=$2 only=${3-}
thinwire=${THINWIRE-build/thinwire}
results=bench/results/asynchronous.jsonl
touch "$results"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The tests of a run, as [[seconds, accuracy], ...].
curve() {  # RUN_JSONL
  sed -nE 's/.*"time":([0-9.e+-]+),.*"test_accuracy":([0-9.e+-]+).*/[\1,\2]/p' "$1" | paste -sd, | sed 's/.*/[&]/'
}

# run GROUP STRATEGY SEED COMMAND...: the command is that of a training run but strategy and seed.
run() {
  local key="\"run\":\"$1 seed $3 $2\"" line
  grep -qF "$key" "$results" && return
  echo "== $1, seed $3, $2" >&2
  rm -rf "$scratch/run"
  line=$("${@:4}" --strategy "$2" --seed "$3" --out "$scratch/run" --json | tail -n 1)
  line=${line//"$mnist"/}
  echo "{$key,\"curve\":$(curve "$scratch/run/run.jsonl"),${line#\{}" >>"$results"
}

# The fixed period whose traffic is that of gossip, as the run GROUP of that seed showed.
equal_period() {  # GROUP SEED
  grep -F "\"run\":\"$1 seed $2 gossip\"" "$results" | sed -nE 's/.*"interval_mean":([0-9.]+).*/\1/p' | xargs printf %.0f
}

# Every step, by change, and by a period of equal traffic.
three_gossips() {  # GROUP SEED COMMAND...
  run "$1" gossip "$2" "${@:3}"
  run "$1" gossip:trigger=period "$2" "${@:3}"
  run "$1" "gossip:trigger=period,period=$(equal_period "$1" "$2")" "$2" "${@:3}"
}

# Workers that take steps of their own see small batches, and want a smaller rate than dense, whose best
# of 0.02, 0.05 and 0.1 is 0.05: of 0.01, 0.02 and 0.05 the last diverges, and 0.02 is the best.
own_rate=0.02 dense_rate=0.05
lenet() {  # WORKERS OPTION...
  command=("$thinwire" train --model lenet --data "mnist:$mnist" --workers "$1" --batch $((128 / $1))
    --epochs 3 --momentum 0.9 --lr-schedule cosine "${@:2}")
}
wanted() { [[ $1 == "${only:-$1}" ]]; }

if wanted traffic; then
  for seed in 1 2 3; do
    # So fast that every message of every step leaves in time.
    lenet 8 --transport sim --network 10gbit,0.1ms --step-time 0.02 --lr "$own_rate"
    three_gossips "lenet traffic sim 8" "$seed" "${command[@]}"
    lenet 4 --transport gloo --lr "$own_rate"
    three_gossips "lenet traffic gloo 4" "$seed" "${command[@]}"
  done
fi
if wanted time; then
  for network in 1gbit,0.1ms 100mbit,0.1ms; do
    lenet 8 --transport sim --network "$network" --step-time 0.02 --eval-every 94
    group="lenet time $network sim 8"
    run "$group" dense 1 "${command[@]}" --lr "$dense_rate"
    three_gossips "$group" 1 "${command[@]}" --lr "$own_rate"
  done
fi
four() {  # GROUP COMMAND...
  run "$1" dense 1 "${@:2}" --lr "$dense_rate"
  for strategy in localsgd gossip lasgd; do run "$1" "$strategy" 1 "${@:2}" --lr "$own_rate"; done
}
if wanted speed; then
  for workers in 8 16; do
    lenet "$workers" --transport sim --network 1gbit,0.1ms --step-time 0.02 --eval-every 94
    four "lenet equal sim $workers" "${command[@]}"
    four "lenet slow sim $workers" "${command[@]}" --slow 0:3
  done
fi
if wanted netlab; then
  lenet 4 --eval-every 94
  netlab=(tools/netlab run -n 4 --rate 1gbit -- "${command[@]}")
  four "lenet equal netlab 4" "${netlab[@]}"
  four "lenet slow netlab 4" "${netlab[@]}" --slow 0:3
fi
if wanted resnet20; then
  three_gossips "resnet20 traffic gloo 4" 1 "$thinwire" train --model resnet20 --data "cifar10:$cifar10" --workers 4 \
    --batch 32 --epochs 4 --lr 0.1 --momentum 0.9 --weight-decay 1e-4 --lr-schedule cosine:warmup=0.5 --transport gloo
fi
