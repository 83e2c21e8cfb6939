#!/usr/bin/env bash
# A folder's target sees the headers of the folders it may use, and no others (cmake/Folders.cmake).
#   layers_test.sh COMPILER DIRECTORY
# DIRECTORY has a file for each target, TARGET.includes, with its include directories, one per line.
# The table below has what each target sees; a few compilations show that this is what counts.
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

# --- What every target sees, in addition to its own folder. Words in capitals stand for several.
declare -A groups=(
  [TRANSPORT]="api_core api_transport base transport"
  [STRATEGY]="api_core api_transport api_collective api_strategy base kernel message transport collective"
  [API]="api_core api_transport api_collective api_strategy"
)
declare -A sees=(
  [base]="api_core"
  [kernel]="api_core base src/kernel"
  [message]="api_core base kernel"
  [rendezvous]="api_core api_transport base"
  [transport]="api_core api_transport base"
  [threads]="TRANSPORT"
  [wrappers]="TRANSPORT"
  [gloo]="TRANSPORT rendezvous"
  [mpi]="TRANSPORT rendezvous"
  [sim]="TRANSPORT rendezvous"
  [collective]="TRANSPORT api_collective kernel message"
  [strategy_common]="STRATEGY"
  [strategy_dense]="STRATEGY strategy_common"
  [strategy_sparse]="STRATEGY strategy_common"
  [strategy_quantized]="STRATEGY strategy_common"
  [strategy_lowrank]="STRATEGY strategy_common"
  [strategy_averaging]="STRATEGY strategy_common"
  [strategy_gossip]="STRATEGY strategy_common"
  [strategy_server]="STRATEGY strategy_common strategy_sparse"
  [strategy]="STRATEGY strategy_common"
  [session]="STRATEGY strategy_common"
  [testing]="api_core base"
  [observe]="api_core base"
  [launch]="API base transport"
  [plan]="API base transport"
  [measure]="API base transport kernel plan"
  [data]="api_core base"
  [models]="api_core base data"
  [trainer]="API base data models"
  [report]="API base transport data launch observe report/page_files"
  [cli]="API base transport kernel data launch measure models observe plan report trainer include"
  [c_api]="API api_c base rendezvous observe"
)

root=$(cd "$(dirname "$0")/.." && pwd)
for file in "$directory"/thinwire_*.includes; do
  target=$(basename "$file" .includes)
  target=${target#thinwire_}
  if [ -z "${sees[$target]:-}" ]; then
    echo "thinwire_$target is not in the table of layers_test.sh"
    failed=1
    continue
  fi
  allowed=" $target ${sees[$target]} "
  for word in "${!groups[@]}"; do allowed=${allowed/ $word / ${groups[$word]} }; done
  while read -r path; do
    case $path in
      */rooms/thinwire_*) folder=${path##*/rooms/thinwire_} ;;
      */report/page_files) folder=report/page_files ;;
      "$root"/*) folder=${path#"$root"/} ;;
      *) continue ;;  # a library of the system
    esac
    if [[ $allowed != *" $folder "* ]]; then
      echo "thinwire_$target sees $folder, which is of a layer that it must not know"
      failed=1
    fi
  done <"$file"
done

# --- What compiles.
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
