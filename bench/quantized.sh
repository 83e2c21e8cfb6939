#!/usr/bin/env bash
# One exchange of 25 M gradients over a real slow network: dense, quantized and low-rank strategies, and the
# hooks of PyTorch's DDP, which is left out without python3-torch (tools/deps). The bytes of DDP are those
# of the interface, headers included, and its step includes a backward pass that computes next to nothing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/in_lab.bash"
lab_options "$@"

readonly python=/usr/bin/python3  # Debian's, to which python3-torch belongs
programs=(dense dense:dtype=bf16 qsgd:bits=2 qsgd qsgd:bits=6 qsgd:scales=4+8 grandk:density=0.01
  powersgd:rank=1,start=0 powersgd:rank=2,start=0 powersgd:rank=4,start=0)
if "$python" -c 'import torch.distributed' 2>/dev/null; then
  programs+=(ddp:fp32 ddp:fp16 ddp:powersgd,rank=1 ddp:powersgd,rank=2 ddp:powersgd,rank=4)
else
  echo "$script: DDP is left out: it needs python3-torch (tools/deps)" >&2
fi

launch() {  # PROGRAM
  local command=("$build/thinwire" bench allreduce --transport gloo --strategy "$1" --json)
  case $1 in
    ddp:powersgd,rank=*)
      command=("$python" bench/peers/ddp_step.py --hook powersgd --matrix-rank "${1##*=}") ;;
    ddp:*) command=("$python" bench/peers/ddp_step.py --hook "${1#ddp:}") ;;
  esac
  lab_run "${command[@]}" --numel "$numel" --reps "$reps"
}
lab_measure "${programs[@]}"
