#!/usr/bin/env bash
# The manual page and the completion script, as their readers take them: groff and bash.
#   documents_test.sh DIRECTORY, which holds thinwire.1 and thinwire.bash
set -euo pipefail

page=$1/thinwire.1 script=$1/thinwire.bash
failed=0

if command -v groff >/dev/null; then
  warnings=$(groff -man -ww -z -Tutf8 "$page" 2>&1)
  [ -z "$warnings" ] || { echo "groff: $warnings"; failed=1; }
else
  echo "skipped: groff not found"
fi

bash -n "$script"
# shellcheck disable=SC1090
source "$script"

# completes "WORDS TYPED" EXPECTED...: the last word typed may be empty
completes() {
  local expected
  IFS=' ' read -ra COMP_WORDS <<<"$1"
  [[ $1 == *' ' ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMPREPLY=()
  _thinwire
  for expected in "${@:2}"; do
    [[ " ${COMPREPLY[*]} " == *" $expected "* ]] && continue
    echo "'$1' does not offer $expected, but: ${COMPREPLY[*]}"
    failed=1
  done
}

# offers_only "WORDS TYPED" WORD
offers_only() {
  completes "$1" "$2"
  [ "${#COMPREPLY[@]}" -eq 1 ] || { echo "'$1' offers more than $2: ${COMPREPLY[*]}"; failed=1; }
}

completes 'thinwire ' bench plan list help --version
offers_only 'thinwire be' bench
completes 'thinwire bench ' allreduce select
completes 'thinwire bench allreduce --' --strategy --numel --workers --json --help
completes 'thinwire bench allreduce --strategy ' dense gtopk qsgd
offers_only 'thinwire bench allreduce --strategy gto' gtopk
offers_only 'thinwire bench allreduce --strategy = gto' gtopk
completes 'thinwire bench allreduce --transport ' threads
completes 'thinwire bench allreduce --json --transport ' threads
completes 'thinwire list ' strategies transports models data
offers_only 'thinwire help --completion ' bash
completes 'thinwire help ' bench plan
completes 'thinwire bench allreduce --workers '
[ "${#COMPREPLY[@]}" -eq 0 ] || { echo "a number is completed: ${COMPREPLY[*]}"; failed=1; }

[ "$failed" -eq 0 ] && echo "the page and the completion are in order"
exit "$failed"
