#!/usr/bin/env bash
# Does every strategy, with no keys given, keep the accuracy of dense at dense's hyper-parameters? Hours; a run
# that is already in bench/results/defaults.jsonl is not repeated.
#   bench/training/defaults.sh MNIST_DIR CIFAR10_DIR TEXT_FILE [PART]
# Parts, all unless one is named:
#   resnet20   ResNet-20 on CIFAR-10, 6 epochs, 4 workers; 3 seeds where half a point matters
#   longer     the same for 15 epochs, dense and four strategies
#   lenet      LeNet on MNIST, 1 epoch, 4 to 32 simulated workers
#   thin       LeNet on MNIST, 3 epochs, 8 simulated workers at 100 Mbit/s: time to an accuracy, README's table
#   text       an LSTM on the words of TEXT_FILE, dense and three strategies
#   coverage   ResNet-8 on CIFAR-10: topk and gtopk at several densities, numbers of workers and batch sizes
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/recorded.bash"
usage_unless [ $# -ge 3 ]
mnist=$1 cifar10=$2 text=$3 only=${4-}
keep_in bench/results/defaults.jsonl

all=(topk gtopk qsgd powersgd grandk ps gossip localsgd lasgd)

images() {  # GROUP MODEL WORKERS BATCH EPOCHS SEED STRATEGY
  record "$1 seed $6 $7" "$thinwire" train --model "$2" --data "cifar10:$cifar10" --workers "$3" --batch "$4" --epochs "$5" \
    --lr 0.1 --momentum 0.9 --weight-decay 1e-4 --lr-schedule cosine --seed "$6" --strategy "$7" --transport threads
}

if wanted resnet20; then
  for seed in 1 2 3; do images "resnet20 6 epochs" resnet20 4 32 6 $seed dense; done
  for strategy in "${all[@]}"; do images "resnet20 6 epochs" resnet20 4 32 6 1 "$strategy"; done
  for strategy in topk gtopk qsgd powersgd ps; do
    for seed in 2 3; do images "resnet20 6 epochs" resnet20 4 32 6 $seed "$strategy"; done
  done
fi
if wanted longer; then
  for strategy in dense topk gtopk gossip lasgd; do images "resnet20 15 epochs" resnet20 4 32 15 1 "$strategy"; done
fi
if wanted lenet; then
  for workers in 4 8 16 32; do
    for strategy in dense "${all[@]}"; do
      lenet "$workers" --epochs 1 --lr 0.05 --transport sim --network 100mbit,0.2ms --step-time 20ms
      record "lenet $workers workers seed 1 $strategy" "${command[@]}" --seed 1 --strategy "$strategy"
    done
  done
fi
if wanted thin; then
  fields() { echo rate=100mbit && curve; }
  lenet 8 --epochs 3 --lr 0.05 --transport sim --network 100mbit,0.1ms --step-time 20ms --eval-every 94
  for strategy in dense "${all[@]}"; do
    rm -rf "$scratch/run"
    record "thin 8 workers seed 1 $strategy" "${command[@]}" --seed 1 --strategy "$strategy" --out "$scratch/run"
  done
  fields() { :; }
fi
if wanted text; then
  for strategy in dense topk gtopk qsgd; do
    record "lstm seed 1 $strategy" "$thinwire" train --model lstm --data "text:$text" --workers 4 --batch 20 --epochs 1 \
      --lr 1 --momentum 0.9 --lr-schedule cosine --seed 1 --strategy "$strategy" --transport threads
  done
fi
if wanted coverage; then
  for shape in "2 32" "4 32" "8 32" "4 128"; do
    read -r workers batch <<<"$shape"
    group="coverage $workers workers batch $batch"
    images "$group" resnet8 "$workers" "$batch" 4 1 dense
    for density in 0.001 0.003 0.01 0.03; do
      for name in topk gtopk; do images "$group" resnet8 "$workers" "$batch" 4 1 "$name:density=$density,warmup=none"; done
    done
  done
fi
