#!/usr/bin/env bash
# One exchange of 25 M gradients over a real thin wire: dense, quantized and low-rank strategies beside
# the hooks of PyTorch's DDP, in one lab, in turns. Strategies that this build lacks are left out, and DDP
# without python3-torch (tools/deps peers). Exits 77 if there can be no lab.
#   bench/quantized.sh [--hosts P] [--rate RATE] [--numel N] [--rounds R] [--reps K] [--build DIR] [--out FILE]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hosts=4 rate=1gbit numel=25M rounds=3 reps=9 build=build out=bench/results/quantized-netlab.jsonl
while [ $# -gt 0 ]; do
  case $1 in
    --hosts | --rate | --numel | --rounds | --reps | --build | --out)
      [ $# -ge 2 ] || { echo "quantized.sh: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *) sed -n 5p "$0" >&2; exit 2 ;;
  esac
done

readonly python=/usr/bin/python3  # Debian's, for whom python3-torch is
programs=(dense dense:dtype=bf16
  qsgd:bits=2 qsgd qsgd:bits=6 qsgd:scales=4+8 grandk
  'powersgd:rank=1,start=0' 'powersgd:rank=2,start=0' 'powersgd:rank=4,start=0'
  ddp:fp32 ddp:fp16 'ddp:powersgd,rank=1' 'ddp:powersgd,rank=2' 'ddp:powersgd,rank=4')

keep_known() {  # programs that can run here
  local program known=() strategies reason
  strategies=$("$build/thinwire" list strategies | sed -nE 's/^([a-z]+).*/\1/p')
  if "$python" -c 'import torch.distributed' 2>/dev/null; then strategies+=$'\nddp'; fi
  for program in "${programs[@]}"; do
    if grep -qx "${program%%:*}" <<<"$strategies"; then
      known+=("$program")
    else
      reason="$build/thinwire has no such strategy"
      [[ $program != ddp:* ]] || reason="it needs python3-torch: tools/deps peers"
      echo "quantized.sh: $program is left out: $reason" >&2
    fi
  done
  programs=("${known[@]}")
}

launch() {  # PROGRAM: its JSON line
  local command=("$build/thinwire" bench allreduce --transport gloo --strategy "$1" --json)
  case $1 in
    ddp:powersgd,rank=*)
      command=("$python" bench/peers/ddp_step.py --hook powersgd --matrix-rank "${1##*=}") ;;
    ddp:*) command=("$python" bench/peers/ddp_step.py --hook "${1#ddp:}") ;;
  esac
  tools/netlab run --name "$lab" -- "${command[@]}" --numel "$numel" --reps "$reps" | tail -n 1
}

# Medians over the rounds. The wire bound is that of the bytes a worker sent; bytes of DDP are those of the
# interface, headers included, and its step has what there is of backward.
table() {  # FILE
  awk -v rate="$rate" '
    function value(key) {
      return match($0, "\"" key "\": *[0-9.e+-]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : -1
    }
    function middle(values, name, n,   i, j, swap) {
      for (i = 2; i <= n; ++i)
        for (j = i; j > 1 && values[name, j] < values[name, j - 1]; --j) {
          swap = values[name, j]; values[name, j] = values[name, j - 1]; values[name, j - 1] = swap
        }
      return (values[name, int((n + 1) / 2)] + values[name, int(n / 2) + 1]) / 2
    }
    BEGIN {
      factor["kbit"] = 1e3; factor["mbit"] = 1e6; factor["gbit"] = 1e9
      match(rate, /^[0-9.]+/)
      bits = substr(rate, 1, RLENGTH) * factor[substr(rate, RLENGTH + 1)]
      printf "%-26s %10s %12s %14s %8s %14s\n", "strategy", "median s", "computing s", "bytes/worker", "x bound", "against dense"
    }
    {
      match($0, /"strategy": *"[^"]*"/)
      name = substr($0, RSTART, RLENGTH)
      gsub(/^"strategy": *"|"$/, "", name)
      if (!(name in runs)) order[++programs] = name
      n = ++runs[name]
      step[name, n] = value("seconds_median")
      codec[name, n] = value("seconds_codec")
      bytes[name] = value("bytes_per_worker")
    }
    END {
      for (p = 1; p <= programs; ++p) {
        name = order[p]; n = runs[name]
        seconds = middle(step, name, n); computing = middle(codec, name, n)
        if (name == "dense") dense = seconds
        printf "%-26s %10.4f %12s %14d %8s %14s\n", name, seconds, computing < 0 ? "-" : sprintf("%.4f", computing), bytes[name],
          bits ? sprintf("%.2f", seconds * bits / (8 * bytes[name])) : "-", dense ? sprintf("%.2f x", dense / seconds) : "-"
      }
    }' "$1"
}

if ! tools/netlab list >/dev/null; then
  echo "quantized.sh: skipped, see above"
  exit 77
fi
keep_known
lab=quantized$$
scratch=$(mktemp)
trap 'tools/netlab down --name "$lab"; rm -f "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
tools/netlab up -n "$hosts" --rate "$rate" --name "$lab"

failed=0
for ((round = 1; round <= rounds; round++)); do
  for program in "${programs[@]}"; do
    read -r load _ </proc/loadavg
    if line=$(launch "$program") && [[ $line == *'"seconds_median"'* ]]; then
      echo "{\"round\":$round,\"load\":$load,\"rate\":\"$rate\",${line#\{}" >>"$scratch"
      echo "round $round $program: $(sed -E 's/.*"seconds_median": *([0-9.e-]+).*/\1/' <<<"$line") s" >&2
    else
      echo "round $round $program: no result" >&2
      failed=1
    fi
  done
done
table "$scratch"
mkdir -p "$(dirname "$out")"
cp "$scratch" "$out"
exit "$failed"
