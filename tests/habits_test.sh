#!/usr/bin/env bash
# The rules of CONTRIBUTING.md that a machine can check. Prints every breach as file:line: text.
#   habits_test.sh [SOURCE]
set -uo pipefail
cd "${1:-$(dirname "$0")/..}" || exit 2
shopt -s globstar nullglob lastpipe
failed=0

breach() {  # breach RULE, with the offending lines on stdin
  local lines
  lines=$(cat)
  [ -z "$lines" ] && return
  failed=1
  printf '%s\n%s\n\n' "* $1" "$lines"
}

sources() { find "$@" -name '*.cpp' -o -name '*.h' -o -name '*.inc' 2>/dev/null | sort; }
mapfile -t all < <(sources include src c_api launch observe plan report cli trainer tests bench fuzz examples)

# Every line of code as file:line:text, without comments.
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
awk '{ sub(/\/\/.*/, ""); print FILENAME ":" FNR ":" $0 }' "${all[@]}" >"$lines"
search() {  # search FILES PATTERN, both regular expressions
  grep -E "^($1)" "$lines" | grep -E "^[^:]+:[0-9]+:.*($2)"
}
library='(src|include)/'
test_file='[^:]*_test\.cpp:|tests/'

# --- Size.
for file in "${all[@]}"; do
  limit=400
  [[ $file == *_test.cpp || $file == tests/* ]] && limit=600
  count=$(wc -l <"$file")
  [ "$count" -le "$limit" ] || echo "$file: $count lines, at most $limit"
done | breach "files stay short"

# --- Habits.
search '(src|include|trainer|observe|plan|report)/' '\bgetenv *\(' | grep -v THINWIRE_CPU |
  breach "getenv only in launch/ and cli/"
search "$library" '\b(printf|fprintf|vprintf|puts|fputs|putchar|perror) *\(|std::(cout|cerr|clog)|fmt::print' |
  grep -vE "^($test_file)" | breach "the library does not print"
# child_process.cpp looks again until a process is there or its patience ends, and so does trial.cpp, which
# also lets a random time pass before a fault.
search "$test_file" '\bsleep_for|\bsleep_until *\(|\busleep *\(' | grep -vE '^(src/testing/child_process|tests/faults/trial)\.cpp:' |
  breach "tests wait on conditions, not on time"
# SimGrid has flags of its own. launch and report are about the command line (ARCHITECTURE.md).
search '(src|include|c_api|observe|plan|trainer)/' '"[^"]*--[a-z]' |
  grep -vE "^($test_file|src/testing/|src/transport/sim/sim_platform\.cpp:)" |
  breach "the library names no flag of the command line"
grep -nHE '\b(TODO|FIXME|XXX|HACK)\b' "${all[@]}" | breach "no notes to self"
search '' '\b(class|struct|enum|using|concept) +(class +)?[A-Za-z_]*(Manager|Helper|Util)' |
  breach "names say what a thing is"
search "$library" '\busing namespace\b' | grep -vE "^($test_file)" |
  breach "no using namespace in the library"
sources include src c_api launch observe plan report cli trainer tests bench fuzz examples | grep '\.h$' | grep -v 'thinwire_c\.h$' | xargs grep -L '^#pragma once' |
  breach "headers have #pragma once"

# --- Documents: prose is wrapped at 100 characters; tables and code are not.
printf '%s\n' *.md {docs,examples}/**/*.md | xargs awk '
  FNR == 1 { code = 0 }
  /^ *```/ { code = !code }
  !code && !/^\|/ { print FILENAME ":" FNR ":" $0 }' | LC_ALL=C.UTF-8 grep -E '^[^:]+:[0-9]+:.{101}' |
  breach "prose has at most 100 characters in a line"

# --- Lists: a word is its file.
for list in src/*/list.inc fuzz/list.inc; do
  sed -nE 's/^TW_[A-Z]+\(([a-z0-9_]+),.*/\1/p' "$list" | while read -r word; do
    [ -n "$(find "$(dirname "$list")" -name "$word.cpp")" ] || echo "$list: $word has no $word.cpp"
  done
done | breach "every word of a list has its file"

[ $failed -eq 0 ] && echo "${#all[@]} files obey"
exit $failed
