"""Faults injected into real runs: `make faults`. The program that injects them makes its tables, too."""
import subprocess

from .form import ROOT, table

PROGRAM = ROOT / "build/tests/faults"


def printed(number):
    """Returns the table of that number. Without the program the page keeps the table that it has."""
    if not PROGRAM.exists():
        return ""
    command = [PROGRAM, "--table", ROOT / "bench/results/faults.jsonl"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    blocks = [block for block in out.split("\n\n") if block.startswith("|")]
    return blocks[number].rstrip()


@table
def faults_by_kind():
    return printed(0)


@table
def faults_by_strategy():
    return printed(1)
