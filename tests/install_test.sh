#!/usr/bin/env bash
# Builds and runs the project in tests/install, which uses thinwire the way others do.
#   install_test.sh installed|subproject SOURCE BUILD "the engines it must find" [cmake options]
set -euo pipefail

mode=$1 source=$2 build=$3 engines=$4
options=("${@:5}")
work=$build/tests/$mode
rm -rf "$work"
mkdir -p "$work"

if [ "$mode" = installed ]; then
  cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
  "$work/prefix/bin/thinwire" --version
  options=("-DCMAKE_PREFIX_PATH=$work/prefix")
else
  options+=("-DTHINWIRE_SOURCE=$source")
fi

cmake -G Ninja -S "$source/tests/install" -B "$work/build" -DCMAKE_BUILD_TYPE=Debug \
  "${options[@]}" >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" >"$work/build.log" || { tail -n 50 "$work/build.log"; exit 1; }

# Nothing of the source tree may be needed once installed.
if [ "$mode" = installed ] && grep -rlF "$source/" "$work/prefix/lib"*/cmake "$work/prefix/include"; then
  echo "the installed files above name the source tree" >&2
  exit 1
fi

found=$("$work/build/consumer")
echo "$found"
[ "$found" = "engines: $engines" ] || { echo "expected engines: $engines" >&2; exit 1; }
"$work/build/train_plain"
