# Sourced by the training measurements. The JSON lines of runs are kept in one file of bench/results/; a run that is
# already there is not repeated. A script calls usage_unless, then keep_in FILE, then
#   record NAME thinwire train ... --strategy SPEC
# for every run; a function fields may print further members of its JSON line, one KEY=TEXT or KEY:=JSON per line
# (bench/records.py).
# THINWIRE is the program (default build/thinwire).
# shellcheck shell=bash
script=$(realpath "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
thinwire=${THINWIRE-build/thinwire}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The usage is at the head of the script, from its first indented comment on.
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

# The measurements of docs/results/ were made with the defaults of 0.1, so that the scripts give these keys; defaults.sh
# measures the present defaults. One thing of 0.1 cannot be given any more, its density warm-up (from 0.25 on, over 5 %
# of the run). A line that is measured again has no warm-up instead, and its bytes and accuracy differ a little.
# grandk codes small tensors now, gossip has a step scale, and the rank of powersgd may rise: these stay, too.
sparse_keys=momentum=corrected,warmup=none
grandk=grandk:density=0.01,warmup=none
gossip=gossip:bits=32,kappa=5,peers=random
gossip_by_period=gossip:bits=32,peers=random,trigger=period

# The tests of the run that has just written to $scratch/run, as the member "curve": [[seconds, accuracy], ...], or
# nothing.
curve() { bench/records.py curve "$scratch/run/run.jsonl"; }

value_of() {  # FLAG COMMAND...
  local flag=$1
  while shift && [ $# -gt 1 ]; do
    [ "$1" = "$flag" ] && { echo "$2"; return; }
  done
}

# A run whose model became infinite is a result, too; a run that failed for another reason ends the script.
record() {  # NAME COMMAND...
  local name=$1 members
  shift
  bench/records.py has "$results" "$name" && return
  echo "== $name" >&2
  if { "$@" --json 2>&1 >&3 | tee "$scratch/log" >&2; } 3>"$scratch/out"; then
    mapfile -t members < <(fields)
    bench/records.py add "$results" "$name" "${members[@]}" <"$scratch/out"
  else
    # The error of a run that gave up after too many steps without a finite gradient.
    grep -qE 'steps in a row.*not finite' "$scratch/log" || exit 1
    mapfile -t members < <(fields)
    bench/records.py add "$results" "$name" "${members[@]}" model="$(value_of --model "$@")" \
      workers:="$(value_of --workers "$@")" strategy="$(value_of --strategy "$@")" diverged:=true <<<'{}'
  fi
}

# Succeeds if the model of a recorded run became infinite, or guesses one of ten classes.
was_lost() {  # NAME
  bench/records.py lost "$results" "$1"
}

# Succeeds for all parts of a measurement, or for the one that was asked for.
wanted() { [[ $1 == "${only:-$1}" ]]; }

# Succeeds if hosts can be made here. If not, a message says that the runs that need them are left out.
can_have_hosts() {
  tools/netlab list >/dev/null && return
  echo "$(basename "$script"): the runs on netlab are left out, see above" >&2
  return 1
}

# A rate at which the strategy is stable, of 0.01, 0.02 and 0.05, for LeNet, 128 examples in a step of all workers.
# Strategies that average rarely take steps on small batches, where SGD is stable at lower rates only: a single worker
# with 16 examples diverges at 0.02, with 8 at 0.01. lasgd is stable at 0.05 while workers are equally fast, but not
# with one that is 3 times slower.
rate_of() {  # STRATEGY WORKERS
  case $1 in
    gossip*) awk -v workers="$2" 'BEGIN { print (workers > 8 ? 0.16 / workers : 0.02) }' ;;
    localsgd* | lasgd* | powersgd:rank=1,*) echo 0.02 ;;
    *) echo 0.05 ;;
  esac
}

# LeNet on MNIST, the same for all strategies.
lenet() {  # WORKERS OPTION...
  command=("$thinwire" train --model lenet --data "mnist:$mnist" --workers "$1" --batch $((128 / $1))
    --momentum 0.9 --lr-schedule cosine "${@:2}")
}
