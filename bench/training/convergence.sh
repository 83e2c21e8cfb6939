#!/usr/bin/env bash
# Does a strategy reach the accuracy of dense? Trains LeNet on MNIST (4 and 8 workers, 3 seeds) and
# ResNet-20 on CIFAR-10 (4 workers), the same global batch, learning rate and data for all. Hours;
# a run that is already in bench/results/convergence.jsonl is not repeated. The strategies have the defaults of 0.1,
# without its density warm-up (recorded.bash).
#   bench/training/convergence.sh MNIST_DIR CIFAR10_DIR [lenet|resnet20 [sparse|quantized]]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/recorded.bash"
usage_unless [ $# -ge 2 ]
mnist=$1 cifar10=$2 only_model=${3-} only_system=${4-}
keep_in bench/results/convergence.jsonl

# run MODEL WORKERS SEED STRATEGY COMMAND...
run() {
  record "$1 $2 workers${lr_label-} seed $3 $4" "${@:5}" --seed "$3" --strategy "$4" --transport threads
}

lenet_at() {  # RATE WORKERS STRATEGY...
  local rate=$1 workers=$2 seed strategy
  shift 2
  for seed in 1 2 3; do
    for strategy in "$@"; do
      lenet "$workers" --epochs 3 --lr "$rate"
      run lenet "$workers" "$seed" "$strategy" "${command[@]}"
    done
  done
}
best_rate() { lenet_at 0.05 "$@"; }  # WORKERS STRATEGY...

resnet20() {  # STRATEGY...
  local strategy
  for strategy in "$@"; do
    run resnet20 4 1 "$strategy" "$thinwire" train --model resnet20 --data "cifar10:$cifar10" --workers 4 --batch 32 \
      --epochs 6 --lr 0.1 --momentum 0.9 --weight-decay 1e-4 --lr-schedule cosine:warmup=0.5
  done
}

asked_for() {  # MODEL SYSTEM
  [[ $1 == "${only_model:-$1}" && $2 == "${only_system:-$2}" ]]
}

sparse() {  # DENSITY
  local keys=density=$1,$sparse_keys
  echo dense "topk:$keys" "gtopk:$keys" "gtopk:$keys,residual=paper"
}
if asked_for lenet sparse; then
  for workers in 4 8; do best_rate "$workers" $(sparse 0.01); done
fi
if asked_for resnet20 sparse; then resnet20 $(sparse 0.001); fi
if asked_for lenet quantized; then
  best_rate 4 dense dense:dtype=bf16 qsgd:bits=2 qsgd qsgd:bits=6 qsgd:scales=2+6 \
    "$grandk" powersgd:rank={1,2,4},start=100
  # Rank 1 is not stable at dense's best rate. It is compared with dense at a rate of its own.
  lr_label=" lr 0.02" lenet_at 0.02 4 dense powersgd:rank=1,start=100
  # One norm for the whole gradient, as published: there the scales matter.
  best_rate 4 qsgd:bits=2,bucket=whole qsgd:bucket=whole qsgd:scales=2+6,bucket=whole
fi
if asked_for resnet20 quantized; then resnet20 dense qsgd qsgd:bits=2 qsgd:scales=2+6 "$grandk"; fi
