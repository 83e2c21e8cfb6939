#!/usr/bin/env bash
# The savings of gossip and lasgd, and their accuracy: LeNet on MNIST and ResNet-20 on CIFAR-10. Hours; a run
# that is already in bench/results/asynchronous.jsonl is not repeated. gossip has the defaults of 0.1 (recorded.bash).
#   bench/training/asynchronous.sh MNIST_DIR CIFAR10_DIR [traffic|time|speed|netlab|resnet20]
# traffic  bytes and accuracy of gossip every step, by change, and by the fixed period of equal traffic
# time     the same on slow networks, compared with dense
# speed    dense, localsgd, gossip and lasgd, workers equally fast and one 3 times slower (simulated)
# netlab   the same on hosts of network namespaces (root)
# resnet20 traffic for ResNet-20, and more frequent messages, of 32 bits and of 4 bits per parameter
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/recorded.bash"
usage_unless [ $# -ge 2 ]
mnist=$1 cifar10=$2 only=${3-}
keep_in bench/results/asynchronous.jsonl

fields() { curve; }

# run GROUP STRATEGY SEED COMMAND...: the command is that of a training run without strategy and seed.
run() {
  rm -rf "$scratch/run"
  record "$1 seed $3 $2" "${@:4}" --strategy "$2" --seed "$3" --out "$scratch/run"
}

# The fixed period whose traffic is that of gossip in the run GROUP of that seed.
equal_period() {  # GROUP SEED
  printf %.0f "$(bench/records.py value "$results" "$1 seed $2 $gossip" interval_mean)"
}

# Every step, by change, and by a period of equal traffic.
three_gossips() {  # GROUP SEED COMMAND...
  run "$1" "$gossip" "$2" "${@:3}"
  run "$1" "$gossip_by_period" "$2" "${@:3}"
  run "$1" "$gossip_by_period,period=$(equal_period "$1" "$2")" "$2" "${@:3}"
}

if wanted traffic; then
  for seed in 1 2 3; do
    # So fast that every message of every step leaves in time.
    lenet 8 --epochs 3 --transport sim --network 10gbit,0.1ms --step-time 0.02
    three_gossips "lenet traffic sim 8" "$seed" "${command[@]}" --lr "$(rate_of gossip 8)"
    # With a message in every step a higher rate is stable: its own best one.
    run "lenet traffic sim 8 lr 0.05" "$gossip_by_period" "$seed" "${command[@]}" --lr 0.05
    lenet 4 --epochs 3 --transport gloo
    three_gossips "lenet traffic gloo 4" "$seed" "${command[@]}" --lr "$(rate_of gossip 4)"
  done
fi
if wanted time; then
  for network in 1gbit,0.1ms 100mbit,0.1ms; do
    lenet 8 --epochs 3 --transport sim --network "$network" --step-time 0.02 --eval-every 94
    group="lenet time $network sim 8"
    run "$group" dense 1 "${command[@]}" --lr "$(rate_of dense 8)"
    three_gossips "$group" 1 "${command[@]}" --lr "$(rate_of gossip 8)"
  done
fi
four() {  # GROUP WORKERS COMMAND...
  local strategy
  for strategy in dense localsgd "$gossip" lasgd; do
    run "$1" "$strategy" 1 "${@:3}" --lr "$(rate_of "$strategy" "$2")"
  done
}
if wanted speed; then
  for workers in 8 16; do
    lenet "$workers" --epochs 3 --transport sim --network 1gbit,0.1ms --step-time 0.02 --eval-every 94
    four "lenet equal sim $workers" "$workers" "${command[@]}"
    four "lenet slow sim $workers" "$workers" "${command[@]}" --slow 0:3
  done
fi
if wanted netlab && can_have_hosts; then
  lenet 4 --epochs 3 --eval-every 94
  netlab=(tools/netlab run -n 4 --rate 1gbit -- "${command[@]}")
  four "lenet equal netlab 4" 4 "${netlab[@]}"
  four "lenet slow netlab 4" 4 "${netlab[@]}" --slow 0:3
fi
if wanted resnet20; then
  command=("$thinwire" train --model resnet20 --data "cifar10:$cifar10" --workers 4 --batch 32 --epochs 4 --lr 0.1
    --momentum 0.9 --weight-decay 1e-4 --lr-schedule cosine:warmup=0.5 --transport gloo)
  group="resnet20 traffic gloo 4"
  run "$group" "$gossip" 1 "${command[@]}"
  run "$group" "$gossip_by_period" 1 "${command[@]}"
  # More frequent messages of 32 bits per parameter; of 4 bits by change, and by the fixed period of equal traffic.
  for strategy in gossip:bits=32,kappa=3,peers=random "$gossip_by_period,period=4" \
    gossip:bits=32,peers=exp,trigger=period,period=2 gossip:bits=4,kappa=0.5,peers=exp \
    gossip:bits=4,peers=exp,trigger=period,period=3; do
    run "$group" "$strategy" 1 "${command[@]}"
  done
fi
