#!/usr/bin/env bash
# One exchange of 25 M gradients over a real thin wire: dense, topk and gtopk in one lab, in turns.
# Exits 77 if there can be no lab.
#   bench/sparse.sh [--hosts P] [--rate RATE] [--numel N] [--rounds R] [--reps K] [--build DIR] [--out FILE]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hosts=4 rate=1gbit numel=25M rounds=3 reps=9 build=build out=bench/results/sparse-netlab.jsonl
while [ $# -gt 0 ]; do
  case $1 in
    --hosts | --rate | --numel | --rounds | --reps | --build | --out)
      [ $# -ge 2 ] || { echo "sparse.sh: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *) sed -n 4p "$0" >&2; exit 2 ;;
  esac
done
readonly strategies=(dense topk gtopk gtopk:residual=absorb gtopk:shape=tree)

if ! tools/netlab list >/dev/null; then
  echo "sparse.sh: skipped, see above"
  exit 77
fi
lab=sparse$$
scratch=$(mktemp)
trap 'tools/netlab down --name "$lab"; rm -f "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
tools/netlab up -n "$hosts" --rate "$rate" --name "$lab"

printf '%-24s %6s %10s %10s %10s %14s\n' strategy round 'median s' 'codec s' 'r += g s' 'bytes/worker'
for ((round = 1; round <= rounds; round++)); do
  for strategy in "${strategies[@]}"; do
    read -r load _ </proc/loadavg
    line=$(tools/netlab run --name "$lab" -- "$build/thinwire" bench allreduce --transport gloo \
      --strategy "$strategy" --numel "$numel" --reps "$reps" --json | tail -n 1)
    echo "{\"round\":$round,\"load\":$load,\"rate\":\"$rate\",${line#\{}" >>"$scratch"
    figure() { sed -nE "s/.*\"$1\":([0-9.e+-]+).*/\1/p" <<<"$line"; }
    printf '%-24s %6d %10.4f %10.4f %10s %14d\n' "$strategy" "$round" "$(figure seconds_median)" \
      "$(figure seconds_codec)" "$(figure add_seconds_median | cut -c1-6)" "$(figure bytes_per_worker)"
  done
done
mkdir -p "$(dirname "$out")"
cp "$scratch" "$out"
