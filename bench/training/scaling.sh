#!/usr/bin/env bash
# How well the five models of the gTop-k paper scale on 1 Gbit/s: for each, the time of one exchange on
# simulated workers, the strategies' own computing charged as measured here, compared with the time
# that computing a step took on one of the paper's GPUs. Needs 20 GB of memory and a quarter of an hour.
#   bench/training/scaling.sh [MODEL...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
thinwire=${THINWIRE-build/thinwire}
results=bench/results/scaling.jsonl
network=1gbit,0.2ms

# Parameters, and seconds per step: batch over the throughput of one GPU (Shi et al. 2019).
declare -A numel=([resnet20]=269722 [vgg16]=14728266 [resnet50]=25557032 [alexnet]=61100840 [lstm]=66034000)
declare -A step=([resnet20]=0.139 [vgg16]=0.0972 [resnet50]=4.84 [alexnet]=0.369 [lstm]=0.0510)
models=("$@")
[ $# -gt 0 ] || models=(resnet20 vgg16 resnet50 alexnet lstm)

touch "$results"
for model in "${models[@]}"; do
  for workers in 4 8 16 32; do
    for strategy in dense topk:density=0.001 gtopk:density=0.001; do
      run="$model $workers $strategy"
      bench/records.py has "$results" "$run" && continue
      line=$("$thinwire" bench allreduce --transport sim --network "$network" --workers "$workers" \
        --numel "${numel[$model]}" --strategy "$strategy" --reps 1 --warmup 1 --json | tail -n 1)
      seconds=$(bench/records.py get seconds_median <<<"$line")
      efficiency=$(awk -v c="${step[$model]}" -v e="$seconds" 'BEGIN { printf "%.4f", c / (c + e) }')
      bench/records.py add "$results" "$run" step_seconds:="${step[$model]}" efficiency:="$efficiency" <<<"$line"
      echo "$model, $workers workers, $strategy: exchange $seconds s, efficiency $efficiency" >&2
    done
  done
done
