#!/usr/bin/env bash
# Builds and runs the programs of tests/install, which use thinwire the way others do.
#   install_test.sh MODE SOURCE BUILD "the transports it must find" [cmake options]
# MODE is one of
#   installed    the static library of BUILD, installed, by find_package; also the C API
#   pkgconfig    the same by pkg-config and a bare compiler
#   subproject   the sources by add_subdirectory
#   shared       the library as a shared object, installed, by find_package and by pkg-config; it
#                links the objects that `subproject` compiled, so run that first
set -euo pipefail

mode=$1 source=$2 build=$3 transports=$4
options=("${@:5}")
work=$build/tests/$mode
prefix=$work/prefix
rm -rf "$work"
mkdir -p "$work"

quietly() {  # quietly LOG COMMAND...: shows the log if the command fails
  "${@:2}" >"$work/$1.log" 2>&1 || { tail -n 50 "$work/$1.log"; exit 1; }
}

configure() {  # configure DIRECTORY OPTIONS...
  quietly configure cmake -G Ninja -S "$source/tests/install" -B "$1" -DCMAKE_BUILD_TYPE=Debug "${@:2}"
}

expect_programs() {  # expect_programs DIRECTORY: its consumer and train_plain do what they should
  local found
  found=$("$1/consumer")
  echo "$found"
  [ "$found" = "transports: $transports" ] || { echo "expected: $transports" >&2; exit 1; }
  "$1/train_plain"
}

use_cmake() {
  configure "$work/build" "-DCMAKE_PREFIX_PATH=$prefix"
  quietly build cmake --build "$work/build"
  expect_programs "$work/build"
}

use_pkg_config() {
  local flags dir
  dir=$(dirname "$(find "$prefix" -name thinwire.pc)")
  flags=$(PKG_CONFIG_PATH=$dir pkg-config --cflags --libs "thinwire >= 0.2")
  mkdir -p "$work/pkgconfig"
  for program in "$source/tests/install/main.cpp" "$source/examples/train_plain.cpp"; do
    # shellcheck disable=SC2086
    "${CXX:-c++}" -std=c++20 "$program" $flags "-Wl,-rpath,${dir%/pkgconfig}" \
      -o "$work/pkgconfig/$(basename "$program" .cpp)"
  done
  mv "$work/pkgconfig/main" "$work/pkgconfig/consumer"
  expect_programs "$work/pkgconfig"
}

use_c_api_by_cmake() {
  quietly configure_c cmake -G Ninja -S "$source/tests/install_c" -B "$work/build_c" \
    "-DCMAKE_PREFIX_PATH=$prefix" -DCMAKE_C_FLAGS="-Wall -Werror"
  quietly build_c cmake --build "$work/build_c"
  "$source/tests/plain_c_test.sh" "$work/build_c/plain_c" \
    "$(find "$prefix" -name libthinwire_c.so)"
}

use_c_api_by_pkg_config() {  # compiles examples/plain_c.c by the command of docs/c-api.md
  local command dir
  dir=$(dirname "$(find "$prefix" -name thinwire_c.pc)")
  command=$(grep -m1 '^cc my.c' "$source/docs/c-api.md")
  cp "$source/examples/plain_c.c" "$work/pkgconfig/my.c"
  (cd "$work/pkgconfig" && PKG_CONFIG_PATH=$dir eval "$command -Wall -Werror -o plain_c")
  LD_LIBRARY_PATH=${dir%/pkgconfig} "$source/tests/plain_c_test.sh" "$work/pkgconfig/plain_c" \
    "${dir%/pkgconfig}/libthinwire_c.so"
}

expect_no_c_api() {  # neither the library nor its header is installed
  [ -z "$(find "$prefix" -name '*thinwire_c*')" ] && return
  find "$prefix" -name '*thinwire_c*'
  echo "the files of the C API above are installed, but the library is not built" >&2
  exit 1
}

# Nothing of the source tree may be needed once installed.
check_prefix() {
  if grep -rlF "$source/" --include='*.cmake' --include='*.pc' --include='*.h' "$prefix"; then
    echo "the installed files above name the source tree" >&2
    exit 1
  fi
}

# Prints the exported functions and objects of a library that are not public, by their qualified
# names: those in an inner namespace of thinwire, and those whose name is in no public header. Of the
# inner namespaces only merge_butterfly is public, because a template in a header calls it.
internal_exports() {  # internal_exports LIBRARY
  local name
  nm -D --defined-only "$1" | awk '$2 ~ /^[TBDRVWu]$/ { print $3 }' | c++filt --no-params |
    sed -nE 's/^(vtable for |VTT for |typeinfo for |typeinfo name for |guard variable for |non-virtual thunk to |virtual thunk to )?(thinwire::.*)/\2/p' |
    sort -u | while read -r name; do
    [[ $name == thinwire::collective::merge_butterfly ]] && continue
    if [[ $name =~ ^thinwire::([a-z_0-9]+|\(anonymous\ namespace\)):: ]]; then
      echo "$name"
    elif [[ $name =~ ^thinwire::([A-Za-z_0-9]+) ]]; then
      grep -rqw "${BASH_REMATCH[1]}" "$prefix/include" || echo "$name"
    fi
  done
}

check_exports() {  # check_exports LIBRARY
  local names
  names=$(internal_exports "$1")
  [ -z "$names" ] && return
  echo "$names" | head -n 10
  echo "the shared library exports the internal names above" >&2
  exit 1
}

case $mode in
  installed | pkgconfig)
    quietly install cmake --install "$build" --prefix "$prefix"
    check_prefix
    "$prefix/bin/thinwire" --version
    for file in share/man/man1/thinwire.1 share/bash-completion/completions/thinwire; do
      [ -s "$prefix/$file" ] || { echo "$file is not installed" >&2; exit 1; }
    done
    if [ "$mode" = pkgconfig ]; then use_pkg_config; else use_cmake; fi
    if [[ " $transports " != *" gloo "* ]]; then
      expect_no_c_api
    elif [ "$mode" = pkgconfig ]; then
      use_c_api_by_pkg_config
    else
      use_c_api_by_cmake
    fi
    ;;
  subproject)
    configure "$work/build" "-DTHINWIRE_SOURCE=$source" "${options[@]}" -DBUILD_SHARED_LIBS=OFF
    quietly build cmake --build "$work/build"
    expect_programs "$work/build"
    ;;
  shared)
    objects=$build/tests/subproject/build
    configure "$objects" "-DTHINWIRE_SOURCE=$source" "${options[@]}" -DBUILD_SHARED_LIBS=ON
    quietly library cmake --build "$objects" --target thinwire/all
    quietly install cmake --install "$objects" --prefix "$prefix"
    check_prefix
    if [ -n "$(find "$prefix" -name 'libthinwire.a')" ]; then
      echo "a shared build installs a static library" >&2
      exit 1
    fi
    expect_no_c_api  # THINWIRE_C is OFF in a subproject
    use_cmake
    use_pkg_config
    # Only the public names are exported, and the name of the library carries its version.
    library=$(find "$prefix" -name 'libthinwire.so')
    readelf -d "$library" | grep -q 'SONAME.*\[libthinwire\.so\.0\.2\]' ||
      { echo "libthinwire.so has the wrong SONAME" >&2; exit 1; }
    check_exports "$library"
    ;;
  *)
    echo "unknown mode: $mode" >&2
    exit 2
    ;;
esac
