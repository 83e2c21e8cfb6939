#!/usr/bin/env python3
"""Writes the measurements in bench/results/ into the tables of docs/results/ and README.

A page marks the place of a table:

    <!-- table NAME -->
    ... (these lines are replaced)
    <!-- end of table -->

NAME is one of the functions in bench/tabulate/ that are marked with @table. `bench/tables.py` rewrites all pages,
`bench/tables.py --check` only says which would change (exit 1). A table without measurements stays as it is.
"""
import re
import sys

# Importing these modules registers their tables.
from tabulate import accuracy, asynchronous, defaults, exchange, faults, overview, pytorch, server  # noqa: F401
from tabulate.form import ROOT, TABLES


def fill(text):
    def replace(match):
        name = match.group(2)
        if name not in TABLES:
            sys.exit(f"tables.py: no table named {name}; there are {', '.join(sorted(TABLES))}")
        body = TABLES[name]()
        return match.group(0) if not body else f"{match.group(1)}\n{body}\n{match.group(4)}"

    return re.sub(r"(<!-- table ([a-z0-9-]+) -->)(.*?)(<!-- end of table -->)", replace, text, flags=re.DOTALL)


def main():
    changed = []
    for page in [*sorted((ROOT / "docs/results").glob("*.md")), ROOT / "README.md"]:
        old = page.read_text()
        new = fill(old)
        if new == old:
            continue
        changed.append(page.relative_to(ROOT))
        if "--check" not in sys.argv:
            page.write_text(new)
    for page in changed:
        print(page)
    sys.exit(1 if changed and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
