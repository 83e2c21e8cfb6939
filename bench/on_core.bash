# Sourced by the measurements of one core: options, a first line that names the machine, and a file of JSON lines
# that replaces the former one when all is done. A script sets its own defaults, calls core_options "$@", and writes
# JSON lines to $lines; leaving it with success keeps them.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/.."
numel=25000000 reps=11 build=build
script=$(basename "$0" .sh)
out=bench/results/$script.jsonl
allowed=(numel reps build out)  # a script may add its own

core_options() {
  local name
  while [ $# -gt 0 ]; do
    name=${1#--}
    if [[ $1 != --* || " ${allowed[*]} " != *" $name "* || $# -lt 2 ]]; then
      echo "usage: bench/$script.sh$(printf ' [--%s VALUE]' "${allowed[@]}")" >&2
      exit 2
    fi
    printf -v "$name" %s "$2"
    shift 2
  done
  lines=$(mktemp)
  trap 'code=$?; [ $code -ne 0 ] || { mkdir -p "$(dirname "$out")" && cp "$lines" "$out"; }; rm -f "$lines"' EXIT
  core_machine >"$lines"
}

core_machine() {  # a JSON line
  local load
  read -r load _ </proc/loadavg
  bench/records.py machine "$script" kernel_release="$(uname -r)" load:="$load"
}
