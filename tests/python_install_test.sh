#!/usr/bin/env bash
# Installs the Python package as `make python` does, into a temporary DESTDIR, and uses it from there.
#   python_install_test.sh SOURCE BUILD
set -euo pipefail

source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
unset THINWIRE_LIBRARY PYTHONPATH
python=${THINWIRE_PYTHON:-/usr/bin/python3}

fail() { echo "$*" >&2; exit 1; }

install_below() {  # install_below PREFIX: sets `site`, the directory to which the package was installed
  local root=$work$1
  DESTDIR=$root cmake --install "$build" --prefix "$1" --component python >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
  site=$(find "$root" -name thinwire -type d -path '*-packages/thinwire')
  site=${site%/thinwire}
  [ -n "$site" ] || fail "no directory NAME-packages/thinwire below $1"
}

# Debian's python3 looks into both places by itself.
if "$python" -c 'import sys, sysconfig; sys.exit("deb_system" not in sysconfig.get_scheme_names())'; then
  for prefix in /usr /usr/local; do
    install_below "$prefix"
    "$python" -c 'import site, sys; sys.exit(sys.argv[1] not in site.getsitepackages())' "${site#"$work$prefix"}" ||
      fail "$python does not look into ${site#"$work$prefix"}"
  done
fi

install_below /opt/thinwire
# The Python files of the source tree, and the library as a file without links.
files() { cd "$1" && find . ! -type d ! -path '*/__pycache__/*' | sort; }
diff <({ files "$source/python/thinwire" && echo ./libthinwire_c.so; } | sort) <(files "$site/thinwire") ||
  fail "not the files that were expected (<)"
[ ! -L "$site/thinwire/libthinwire_c.so" ] || fail "libthinwire_c.so is a link"
# shellcheck disable=SC2016
readelf -d "$site/thinwire/libthinwire_c.so" | grep -q 'PATH.*\[$ORIGIN' || fail 'libthinwire_c.so: no RPATH $ORIGIN'

cd /
PYTHONPATH=$site "$python" -m thinwire >"$work/shown"
cat "$work/shown"
grep -qF "($site/thinwire/libthinwire_c.so)" "$work/shown" || fail "another library was loaded"
