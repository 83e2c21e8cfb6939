#!/usr/bin/env bash
# A training step of a PyTorch program with 25 M parameters on hosts of a lab: DistributedDataParallel with its own
# hooks, and with thinwire. Measures at 1gbit and 100mbit, or at the rate of --rate, and replaces the lines of that rate
# in the file of results. THINWIRE_PYTHON names the interpreter; otherwise it is Debian's, to which python3-torch
# belongs (tools/deps). The library is that of the build directory, or THINWIRE_LIBRARY.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/in_lab.bash"
rate='1gbit 100mbit' rounds=1 reps=5
lab_options "$@"
rates=$rate results=$out

readonly python=${THINWIRE_PYTHON:-/usr/bin/python3}
export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$PWD/python
export THINWIRE_LIBRARY=${THINWIRE_LIBRARY:-$(realpath -m "$build")/c_api/libthinwire_c.so}
if ! "$python" -c 'import torch.distributed, thinwire' 2>/dev/null; then
  echo "$script: skipped, $python cannot import torch and thinwire (tools/deps, make build)"
  exit 77
fi

# Densities are those of a run of 10,000 steps; warmup=none leaves out the higher densities of its first 250.
programs=(ddp:fp32 ddp:fp16 ddp:powersgd,rank=1 ddp:powersgd,rank=4
  dense qsgd topk:warmup=none gtopk:warmup=none localsgd lasgd gossip)

launch() {  # PROGRAM
  local more=()
  if [ "$rate" = 100mbit ]; then
    # A round of lasgd takes 13 s. The pauses save computing time while gossip sends 16 whole models.
    case $1 in
      lasgd) more=(--window 60) ;;
      gossip) more=(--warmup-pause 0.5) ;;
    esac
  fi
  lab_run "$python" bench/peers/pytorch_step.py "$1" --reps "$reps" --steps 10000 "${more[@]}" |
    bench/records.py extend rate="$rate"
}

status=0
for rate in $rates; do
  measured=$(mktemp)
  (out=$measured; lab_measure "${programs[@]}") || status=$?
  case $status in 0 | 1) ;; *) rm -f "$measured"; exit "$status" ;; esac
  touch "$results"
  { grep -v "\"rate\":\"$rate\"" "$results" || true; } >"$measured.others"
  cat "$measured" "$measured.others" >"$results"
  rm -f "$measured" "$measured.others"
done
exit "$status"
