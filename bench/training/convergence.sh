#!/usr/bin/env bash
# Does a strategy reach the accuracy of dense? Trains LeNet on MNIST (4 and 8 workers, 3 seeds) and
# ResNet-20 on CIFAR-10 (4 workers), the same global batch, learning rate and data for all. Hours;
# a run that is already in bench/results/convergence.jsonl is not repeated.
#   bench/training/convergence.sh MNIST_DIR CIFAR10_DIR [lenet|resnet20 [sparse|quantized]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -ge 2 ] || { sed -n 2,5p "$0" >&2; exit 2; }
mnist=$1 cifar10=$2 only_model=${3-} only_system=${4-}
thinwire=${THINWIRE-build/thinwire}
results=bench/results/convergence.jsonl
touch "$results"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# A run whose model became infinite is a result, too; one that failed otherwise ends all.
diverged() {  # KEY MODEL WORKERS STRATEGY
  grep -q 'the model itself is lost' "$scratch/log" || exit 1
  echo "{$1,\"model\":\"$2\",\"workers\":$3,\"strategy\":\"$4\",\"diverged\":true}" >>"$results"
}

# run MODEL DATA WORKERS SEED STRATEGY OPTION...
run() {
  local model=$1 data=$2 workers=$3 seed=$4 strategy=$5
  shift 5
  local key="\"run\":\"$model $workers workers${lr_label-} seed $seed $strategy\""
  grep -qF "$key" "$results" && return
  echo "== $model, $workers workers, seed $seed, $strategy" >&2
  { "$thinwire" train --model "$model" --data "$data" --workers "$workers" --seed "$seed" \
    --strategy "$strategy" --transport threads --json "$@" 2>&1 >&3 | tee "$scratch/log" >&2; } 3>"$scratch/out" ||
    { diverged "$key" "$model" "$workers" "$strategy" && return; }
  local line
  line=$(tail -n 1 "$scratch/out")
  # The directory of the data is this machine's business.
  line=${line//"$data"/"${data%%:*}"}
  echo "{$key,${line#\{}" >>"$results"
}

lenet_at() {  # RATE WORKERS STRATEGY...
  local rate=$1 workers=$2 seed strategy
  shift 2
  for seed in 1 2 3; do
    for strategy in "$@"; do
      run lenet "mnist:$mnist" "$workers" "$seed" "$strategy" --epochs 3 --batch $((128 / workers)) \
        --lr "$rate" --momentum 0.9 --lr-schedule cosine
    done
  done
}
lenet() { lenet_at 0.05 "$@"; }  # WORKERS STRATEGY...

resnet20() {  # STRATEGY...
  local strategy
  for strategy in "$@"; do
    run resnet20 "cifar10:$cifar10" 4 1 "$strategy" --epochs 6 --batch 32 \
      --lr 0.1 --momentum 0.9 --weight-decay 1e-4 --lr-schedule cosine:warmup=0.5
  done
}

wanted() {  # MODEL SYSTEM
  [[ $1 == "${only_model:-$1}" && $2 == "${only_system:-$2}" ]]
}

sparse=(dense topk:density=0.01 gtopk:density=0.01 gtopk:density=0.01,residual=paper
  gtopk:density=0.01,residual=absorb)
if wanted lenet sparse; then lenet 4 "${sparse[@]}" && lenet 8 "${sparse[@]}"; fi
if wanted resnet20 sparse; then resnet20 dense gtopk topk gtopk:residual=paper; fi
if wanted lenet quantized; then
  lenet 4 dense dense:dtype=bf16 qsgd:bits=2 qsgd qsgd:bits=6 qsgd:scales=2+6 \
    grandk powersgd powersgd:rank=2 powersgd:rank=4
  # Rank 1 does not bear dense's best rate; dense at its rate beside.
  lr_label=" lr 0.02" lenet_at 0.02 4 dense powersgd
  # One norm for the whole gradient, as published: there the scales matter.
  lenet 4 qsgd:bits=2,bucket=whole qsgd:bucket=whole qsgd:scales=2+6,bucket=whole
fi
if wanted resnet20 quantized; then resnet20 dense qsgd qsgd:bits=2 qsgd:scales=2+6 grandk; fi
