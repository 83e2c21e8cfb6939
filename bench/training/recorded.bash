# Sourced by the training measurements: runs whose JSON lines are kept in one file of bench/results/, where a run
# that is there already is not repeated. A script calls usage_unless, then keep_in FILE, then
#   record NAME thinwire train ... --strategy SPEC
# for every run; a function fields may print further members of its JSON line ("rate":"1gbit",).
# THINWIRE is the program (default build/thinwire).
# shellcheck shell=bash
script=$(realpath "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
thinwire=${THINWIRE-build/thinwire}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The usage stands at the head of the script, from its first indented comment on.
usage_unless() {  # CONDITION...
  "$@" && return
  sed -nE '/^#  /,/^[^#]/ { s/^# ?//p }' "$script" >&2
  exit 2
}

keep_in() {  # FILE
  results=$1
  touch "$results"
}

fields() { :; }

# The tests of the run that has just written to $scratch/run, as "curve":[[seconds, accuracy], ...], or nothing.
curve() {
  [ -f "$scratch/run/run.jsonl" ] || return 0
  sed -nE 's/.*"time":([0-9.e+-]+),.*"test_accuracy":([0-9.e+-]+).*/[\1,\2]/p' "$scratch/run/run.jsonl" | paste -sd, | sed 's/.*/"curve":[&],/'
}

value_of() {  # FLAG COMMAND...
  local flag=$1
  while shift && [ $# -gt 1 ]; do
    [ "$1" = "$flag" ] && { echo "$2"; return; }
  done
}

# A run whose model became infinite is a result, too; one that failed otherwise ends the script.
record() {  # NAME COMMAND...
  local key="\"run\":\"$1\"" line
  shift
  grep -qF "{$key," "$results" && return
  echo "== ${key#*:}" >&2
  if { "$@" --json 2>&1 >&3 | tee "$scratch/log" >&2; } 3>"$scratch/out"; then
    # The directory of the data is this machine's business.
    line=$(tail -n 1 "$scratch/out" | sed -E 's/"data":"([a-z0-9]+):[^"]*"/"data":"\1"/')
    echo "{$key,$(fields)${line#\{}" >>"$results"
  else
    grep -q 'the model itself is lost' "$scratch/log" || exit 1
    printf '{%s,%s"model":"%s","workers":%s,"strategy":"%s","diverged":true}\n' "$key" "$(fields)" "$(value_of --model "$@")" \
      "$(value_of --workers "$@")" "$(value_of --strategy "$@")" >>"$results"
  fi
}

# Whether the model of a recorded run became infinite, or guesses one of ten classes.
was_lost() {  # NAME
  grep -F "{\"run\":\"$1\"," "$results" | grep -qE '"diverged":true|"accuracy":0\.(0|1[01,])'
}

# All parts of a measurement, or the one that was asked for.
wanted() { [[ $1 == "${only:-$1}" ]]; }

# Whether hosts can be made here; if not, what needs them is left out, and said so.
can_have_hosts() {
  tools/netlab list >/dev/null && return
  echo "$(basename "$script"): the runs on netlab are left out, see above" >&2
  return 1
}

# A rate that each bears, of 0.01, 0.02 and 0.05, for LeNet, 128 examples in a step of all workers. What averages
# rarely takes steps on small batches, where SGD bears less: alone on 16 examples it is lost at 0.02, on 8 at 0.01.
# lasgd bears 0.05 while workers are equally fast, but not with one 3 times slower.
rate_of() {  # STRATEGY WORKERS
  case $1 in
    gossip*) awk -v workers="$2" 'BEGIN { print (workers > 8 ? 0.16 / workers : 0.02) }' ;;
    localsgd* | lasgd* | powersgd) echo 0.02 ;;
    *) echo 0.05 ;;
  esac
}

# LeNet on MNIST, the same for all strategies.
lenet() {  # WORKERS OPTION...
  command=("$thinwire" train --model lenet --data "mnist:$mnist" --workers "$1" --batch $((128 / $1))
    --momentum 0.9 --lr-schedule cosine "${@:2}")
}
