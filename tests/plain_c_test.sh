#!/usr/bin/env bash
# examples/plain_c.c learns on three processes, and libthinwire_c.so exports the C API only and needs neither libtorch,
# MPI nor SimGrid.
#   plain_c_test.sh PROGRAM LIBRARY
set -euo pipefail
program=$1 library=$2
foreign=$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -v '^tw_' || true)
[ -z "$foreign" ] || { echo "exported, but not part of the C API: $foreign" >&2; exit 1; }
if ldd "$library" | grep -E 'torch|libmpi|simgrid'; then
  echo "the C API needs a library that it must not need" >&2
  exit 1
fi
# A port that was free a moment ago; another process may take it, so that three ports are tried.
for attempt in 1 2 3; do
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  ranks=()
  for rank in 0 1 2; do
    "$program" $rank 3 "$port" & ranks+=($!)
  done
  failed=0
  for rank in "${ranks[@]}"; do wait "$rank" || failed=1; done
  [ $failed -eq 0 ] && exit 0
  echo "attempt $attempt failed" >&2
done
exit 1
