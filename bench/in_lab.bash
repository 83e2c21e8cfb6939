# Sourced by the measurements that need a real network: several programs exchange gradients between hosts of one
# lab, in turns, so that other load of the machine affects all of them alike. A script sets the defaults
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
        echo "usage: bench/$script [--hosts P] [--rate RATE] [--numel N] [--rounds R] [--reps K]" \
          "[--build DIR] [--out FILE]" >&2
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
  local program line load round seconds failed=0
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
      if line=$(launch "$program") && seconds=$(bench/records.py get seconds_median <<<"$line"); then
        bench/records.py extend program="$program" round:="$round" load:="$load" <<<"$line" >>"$scratch/results"
        echo "round $round $program: $seconds s" >&2
      else
        echo "round $round $program: no result" >&2
        failed=1
      fi
    done
  done
  bench/records.py lab-table "$scratch/results" "$rate"
  mkdir -p "$(dirname "$out")"
  cp "$scratch/results" "$out"
  exit "$failed"
}

lab_machine() {  # a JSON line
  bench/records.py machine "${script%.sh}" kernel="$(uname -r)" hosts:="$hosts" rate="$rate"
}
