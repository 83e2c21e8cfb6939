#!/usr/bin/env bash
# Selection of the largest entries on one core: ours beside std::nth_element and, where libtorch is
# built in, torch::topk. Each is compared with r += g on the same memory in the same run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

numel=25000000 densities="0.0001 0.001 0.01 0.0625 0.25" reps=11 build=build out=bench/results/select.jsonl
while [ $# -gt 0 ]; do
  case $1 in
    --numel | --densities | --reps | --build | --out)
      [ $# -ge 2 ] || { echo "select.sh: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *)
      echo "usage: bench/select.sh [--numel N] [--densities \"D ...\"] [--reps R] [--build DIR] [--out FILE]" >&2
      exit 2 ;;
  esac
done

machine() {  # a JSON line
  local cpu
  cpu=$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)
  printf '{"bench":"select","cpu":"%s","cores":%d,"kernel_release":"%s","commit":"%s"}\n' \
    "${cpu:-$(uname -m)}" "$(nproc)" "$(uname -r)" \
    "$(git describe --always --dirty 2>/dev/null || echo unknown)"
}

scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
machine >"$scratch"
for density in $densities; do
  read -r load _ </proc/loadavg
  {
    "$build/thinwire" bench select --numel "$numel" --density "$density" --reps "$reps" --json
    if [ -x "$build/bench/select" ]; then
      "$build/bench/select" --numel "$numel" --density "$density" --reps "$reps"
    fi
  } | sed "s/^{/{\"load\":$load,/" | tee -a "$scratch" |
    sed -nE 's/.*"kernel":"([a-z_]+)".*"density":([0-9.e-]+).*"seconds_median":([0-9.e-]+).*"ratio_to_add":([0-9.]+).*/\2 \1: \3 s, \4 x r += g/p'
done
mkdir -p "$(dirname "$out")"
cp "$scratch" "$out"
