# Sourced by the measurements that need a real wire: several programs exchange gradients between hosts of one
# lab, in turns, so that whatever else the machine does meets all of them alike. A script sets the defaults
# below, then calls lab_options "$@", then lab_measure PROGRAM... with a function launch PROGRAM, which prints
# the JSON line of one run; lab_run runs a command on all hosts. Exits 77 if there can be no lab.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/.."
hosts=4 rate=1gbit numel=25M rounds=3 reps=9 build=build out=
script=$(basename "$0")

lab_options() {
  while [ $# -gt 0 ]; do
    case $1 in
      --hosts | --rate | --numel | --rounds | --reps | --build | --out)
        [ $# -ge 2 ] || { echo "$script: $1 needs a value" >&2; exit 2; }
        printf -v "${1#--}" %s "$2"
        shift 2 ;;
      *)
        echo "usage: bench/$script [--hosts P] [--rate RATE] [--numel N] [--rounds R] [--reps K] [--build DIR] [--out FILE]" >&2
        exit 2 ;;
    esac
  done
  out=${out:-bench/results/${script%.sh}-netlab.jsonl}
}

lab_run() {  # [--mpi] COMMAND...: the last line of its rank 0
  local mpi=()
  if [ "$1" = --mpi ]; then mpi=(--mpi); shift; fi
  tools/netlab run --name "$lab" "${mpi[@]}" -- "$@" | tail -n 1
}

lab_measure() {  # PROGRAM...
  local program line load round failed=0
  if ! tools/netlab list >/dev/null; then
    echo "$script: skipped, see above"
    exit 77
  fi
  lab=${script%.sh}$$
  scratch=$(mktemp -d)
  trap 'tools/netlab down --name "$lab"; rm -rf "$scratch"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  tools/netlab up -n "$hosts" --rate "$rate" --name "$lab"
  lab_machine >"$scratch/results"
  for ((round = 1; round <= rounds; round++)); do
    for program in "$@"; do
      read -r load _ </proc/loadavg
      if line=$(launch "$program") && [[ $line == *'"seconds_median"'* ]]; then
        echo "{\"program\":\"$program\",\"round\":$round,\"load\":$load,${line#\{}" >>"$scratch/results"
        echo "round $round $program: $(sed -E 's/.*"seconds_median": *([0-9.e-]+).*/\1/' <<<"$line") s" >&2
      else
        echo "round $round $program: no result" >&2
        failed=1
      fi
    done
  done
  lab_table "$scratch/results"
  mkdir -p "$(dirname "$out")"
  cp "$scratch/results" "$out"
  exit "$failed"
}

lab_machine() {  # a JSON line
  local cpu
  cpu=$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)
  printf '{"bench":"%s","cpu":"%s","cores":%d,"kernel":"%s","hosts":%d,"rate":"%s","commit":"%s"}\n' "${script%.sh}" \
    "${cpu:-$(uname -m)}" "$(nproc)" "$(uname -r)" "$hosts" "$rate" "$(git describe --always --dirty 2>/dev/null || echo unknown)"
}

# Medians over the rounds. The wire bound is that of the bytes that a worker sent; "against" is the first program.
lab_table() {  # FILE
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
    function known(number, format) { return number < 0 ? "-" : sprintf(format, number) }
    BEGIN {
      factor["kbit"] = 1e3; factor["mbit"] = 1e6; factor["gbit"] = 1e9
      match(rate, /^[0-9.]+/)
      bits = substr(rate, 1, RLENGTH) * factor[substr(rate, RLENGTH + 1)]
      printf "%-26s %10s %10s %10s %12s %14s %8s %10s\n", "program", "median s", "min s", "max s", "computing s", "bytes/worker", "x bound", "against"
    }
    /"seconds_median"/ {
      match($0, /"program":"[^"]*"/)
      name = substr($0, RSTART + 11, RLENGTH - 12)
      if (!(name in runs)) order[++programs] = name
      n = ++runs[name]
      median[name, n] = value("seconds_median")
      codec[name, n] = value("seconds_codec")
      if (n == 1 || value("seconds_min") < least[name]) least[name] = value("seconds_min")
      if (n == 1 || value("seconds_max") > most[name]) most[name] = value("seconds_max")
      bytes[name] = value("bytes_per_worker")
    }
    END {
      for (p = 1; p <= programs; ++p) {
        name = order[p]
        seconds = middle(median, name, runs[name])
        if (p == 1) first = seconds
        printf "%-26s %10.4f %10s %10s %12s %14d %8s %8.2f x\n", name, seconds, known(least[name], "%.4f"), known(most[name], "%.4f"),
          known(middle(codec, name, runs[name]), "%.4f"), bytes[name], (bits * bytes[name] ? sprintf("%.3f", seconds * bits / (8 * bytes[name])) : "-"), first / seconds
      }
    }' "$1"
}
