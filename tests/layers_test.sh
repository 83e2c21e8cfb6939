#!/usr/bin/env bash
# A folder's target sees the headers of the folders it may use, and no others (cmake/Folders.cmake).
#   layers_test.sh COMPILER DIRECTORY
# DIRECTORY has a file for each target, TARGET.includes, with its include directories, one per line.
set -euo pipefail

compiler=$1 directory=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# compile TARGET HEADER: with exactly the include directories of the target
compile() {
  local flags=() line
  while read -r line; do
    [ -z "$line" ] || flags+=("-I$line")
  done <"$directory/$1.includes"
  echo "#include \"$2\"" >"$scratch/one.cpp"
  "$compiler" -std=c++20 -fsyntax-only "${flags[@]}" "$scratch/one.cpp" 2>"$scratch/errors"
}

allows() {  # allows TARGET HEADER
  compile "$1" "$2" && return
  echo "$1 must be able to include $2:"
  cat "$scratch/errors"
  failed=1
}

forbids() {  # forbids TARGET HEADER
  if compile "$1" "$2"; then
    echo "$1 can include $2, which is of a layer that it must not know"
    failed=1
  elif ! grep -qE "$2.*(No such file|file not found)" "$scratch/errors"; then
    echo "$1 cannot include $2, but for another reason than that it does not see it:"
    cat "$scratch/errors"
    failed=1
  fi
}

allows thinwire_kernel base/bytes.h
allows thinwire_kernel thinwire/types.h
forbids thinwire_kernel transport/backends.h
forbids thinwire_kernel thinwire/transport.h
forbids thinwire_kernel message/sparse_message.h

allows thinwire_base thinwire/error.h
forbids thinwire_base kernel/topk.h
forbids thinwire_base thinwire/transport.h

allows thinwire_message kernel/topk.h
forbids thinwire_message thinwire/transport.h

allows thinwire_transport thinwire/transport.h
forbids thinwire_transport transport/gloo/gloo_group.h
forbids thinwire_transport thinwire/strategy.h

allows thinwire_strategy_sparse thinwire/collective.h
forbids thinwire_strategy_sparse strategy/gossip/gossip_peers.h

allows thinwire_plan thinwire/strategy.h
forbids thinwire_plan strategy/sparse/sparse_strategy.h
forbids thinwire_plan launch/console.h
forbids thinwire_plan cli/command.h

allows thinwire_report launch/console.h
forbids thinwire_report cli/command.h

allows thinwire_data thinwire/types.h
if [ -e "$directory/thinwire_trainer.includes" ]; then
  allows thinwire_trainer thinwire/session.h
  forbids thinwire_trainer strategy/sparse/sparse_strategy.h
  forbids thinwire_trainer transport/backends.h
fi

[ "$failed" -eq 0 ] && echo "every target sees its own layer and those below"
exit "$failed"
