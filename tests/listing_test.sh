#!/usr/bin/env bash
# The listing at the end of docs/library.md is the example itself.
#   listing_test.sh [SOURCE]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
example=examples/train_plain.cpp
if ! diff <(sed -n '/^## A complete program/,$p' docs/library.md | sed '1,/^```cpp$/d; /^```$/,$d') "$example"; then
  echo "docs/library.md does not show $example as it is (above)" >&2
  exit 1
fi
