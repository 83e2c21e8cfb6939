#!/usr/bin/env bash
# Dense all-reduce over a real thin wire: ours beside Gloo's and Open MPI's own, in one lab, in turns,
# so that whatever else the machine does meets all of them alike. Exits 77 if there can be no lab.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hosts=4 rate=1gbit numel=25000000 rounds=3 reps=5 build=build out=bench/results/dense-netlab.jsonl
while [ $# -gt 0 ]; do
  case $1 in
    --hosts | --rate | --numel | --rounds | --reps | --build | --out)
      [ $# -ge 2 ] || { echo "dense.sh: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *)
      echo "usage: bench/dense.sh [--hosts P] [--rate RATE] [--numel N] [--rounds R] [--reps K]" \
        "[--build DIR] [--out FILE]" >&2
      exit 2 ;;
  esac
done

ours=("$build/thinwire" bench allreduce --strategy dense --numel "$numel" --reps "$reps" --json)
readonly programs=(thinwire-gloo thinwire-mpi gloo-native openmpi-native openmpi-native-ring)

launch() {  # PROGRAM: its JSON line on stdout
  local store
  case $1 in
    thinwire-gloo) in_lab "${ours[@]}" --transport gloo ;;
    thinwire-mpi) in_lab --mpi "${ours[@]}" --transport mpi ;;
    gloo-native)
      store=$(mktemp -d "$scratch/store.XXXXXX")
      in_lab "$build/bench/native_gloo" --numel "$numel" --reps "$reps" --network "$rate" \
        --store "$store" ;;
    openmpi-native)
      in_lab --mpi "$build/bench/native_mpi" --numel "$numel" --reps "$reps" --network "$rate" ;;
    # Open MPI with the algorithm that suits this wire instead of the one it chooses.
    openmpi-native-ring)
      OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_allreduce_algorithm=4 \
        launch openmpi-native ;;
  esac
}

in_lab() {  # [--mpi] CMD...
  local mpi=()
  if [ "$1" = --mpi ]; then
    mpi=(--mpi)
    shift
  fi
  tools/netlab run --name "$lab" "${mpi[@]}" -- "$@" | tail -n 1
}

machine() {  # a JSON line
  local cpu
  cpu=$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)
  printf '{"bench":"dense","cpu":"%s","cores":%d,"kernel":"%s","hosts":%d,"rate":"%s","commit":"%s"}\n' \
    "${cpu:-$(uname -m)}" "$(nproc)" "$(uname -r)" "$hosts" "$rate" \
    "$(git describe --always --dirty 2>/dev/null || echo unknown)"
}

table() {  # FILE
  awk -v rate="$rate" '
    function value(key) {
      return match($0, "\"" key "\": *[0-9.e+-]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0
    }
    BEGIN {
      factor["kbit"] = 1e3; factor["mbit"] = 1e6; factor["gbit"] = 1e9
      match(rate, /^[0-9.]+/)
      bits = substr(rate, 1, RLENGTH) * factor[substr(rate, RLENGTH + 1)]
      printf "%-22s %10s %10s %10s %9s %14s\n", "program", "median s", "min s", "max s", "x bound", "MB per worker"
    }
    /"seconds_median"/ {
      match($0, /"program":"[^"]*"/)
      name = substr($0, RSTART + 11, RLENGTH - 12)
      if (!(name in runs)) order[++programs] = name
      n = ++runs[name]
      bound = bits ? 2 * (value("workers") - 1) / value("workers") * 32 * value("numel") / bits : 0
      median[name, n] = value("seconds_median")
      if (n == 1 || value("seconds_min") < least[name]) least[name] = value("seconds_min")
      if (n == 1 || value("seconds_max") > most[name]) most[name] = value("seconds_max")
      bytes[name] = value("bytes_per_worker")
    }
    END {
      for (p = 1; p <= programs; ++p) {
        name = order[p]; n = runs[name]
        for (i = 2; i <= n; ++i)
          for (j = i; j > 1 && median[name, j] < median[name, j - 1]; --j) {
            swap = median[name, j]; median[name, j] = median[name, j - 1]; median[name, j - 1] = swap
          }
        middle = (median[name, int((n + 1) / 2)] + median[name, int(n / 2) + 1]) / 2
        printf "%-22s %10.3f %10.3f %10.3f %9s %14.1f\n", name, middle, least[name], most[name],
          bound ? sprintf("%.3f", middle / bound) : "-", bytes[name] / 1e6
      }
      if (bound) printf "ring bound: %.3f s\n", bound
    }' "$1"
}

if ! tools/netlab list >/dev/null; then
  echo "dense.sh: skipped, see above"
  exit 77
fi
lab=dense$$
scratch=$(mktemp -d)
trap 'tools/netlab down --name "$lab"; rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
tools/netlab up -n "$hosts" --rate "$rate" --name "$lab"

failed=0
machine >"$scratch/results"
for ((round = 1; round <= rounds; round++)); do
  for program in "${programs[@]}"; do
    read -r load _ </proc/loadavg
    if line=$(launch "$program") && [[ $line == *'"seconds_median"'* ]]; then
      line="{\"program\":\"$program\",\"round\":$round,\"load\":$load,${line#\{}"
      echo "$line" >>"$scratch/results"
      echo "round $round $program: $(sed -E 's/.*"seconds_median": *([0-9.]+).*/\1/' <<<"$line") s" >&2
    else
      echo "round $round $program: no result" >&2
      failed=1
    fi
  done
done
table "$scratch/results"
mkdir -p "$(dirname "$out")"
cp "$scratch/results" "$out"
exit "$failed"
