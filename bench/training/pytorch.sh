#!/usr/bin/env bash
# Accuracy of PyTorch programs with four ranks on this machine; a run that is already in
# bench/results/pytorch-accuracy.jsonl is not repeated. THINWIRE_PYTHON names the interpreter (default: Debian's).
#   bench/training/pytorch.sh MNIST_DIR [CIFAR10_DIR]
# LeNet on MNIST, 1 epoch, 3 seeds: DistributedDataParallel with its own hooks, every strategy of thinwire with no
# keys, and the ways to select over 4 buckets. With CIFAR10_DIR these ways on ResNet-20, too, 2 epochs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/recorded.bash"
usage_unless [ $# -ge 1 ]
mnist=$1 cifar10=${2-}
keep_in bench/results/pytorch-accuracy.jsonl
readonly python=${THINWIRE_PYTHON:-/usr/bin/python3} workers=4
export PYTHONPATH=$PWD/python OMP_NUM_THREADS=1 WORLD_SIZE=$workers MASTER_ADDR=127.0.0.1 MASTER_PORT

ranks() {  # ARGUMENT...: of bench/peers/pytorch_accuracy.py
  local rank status=0 others=()
  MASTER_PORT=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  for ((rank = 1; rank < workers; rank++)); do
    RANK=$rank "$python" bench/peers/pytorch_accuracy.py "$@" & others+=($!)
  done
  RANK=0 "$python" bench/peers/pytorch_accuracy.py "$@" || status=$?
  wait "${others[@]}" || status=$?
  return "$status"
}

for seed in 1 2 3; do
  for program in ddp:fp32 ddp:fp16 ddp:powersgd,rank=1 ddp:powersgd,rank=4 \
    dense qsgd grandk topk gtopk powersgd ps localsgd lasgd gossip; do
    record "lenet seed $seed $program" ranks --data "$mnist" --seed $seed --strategy "$program"
  done
  for program in topk:density=0.003 gtopk:density=0.01; do
    for select in global bucket carry; do
      record "lenet seed $seed $program,select=$select of 4 buckets" \
        ranks --data "$mnist" --seed $seed --strategy "$program,select=$select" --buckets 4
    done
  done
done
if [ -n "$cifar10" ]; then
  for select in global bucket carry; do
    record "resnet20 seed 1 topk:select=$select of 4 buckets" ranks --model resnet20 --data "$cifar10" \
      --epochs 2 --lr 0.1 --strategy topk:select=$select --buckets 4
  done
fi
