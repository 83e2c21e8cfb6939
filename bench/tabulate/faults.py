"""Faults injected into real runs: `make faults`. The program that injects them makes its tables, too."""
import subprocess

from .form import ROOT, table

PROGRAM = ROOT / "build/tests/faults"


def printed(number):
    """The table of that number; without the program the page keeps the one it has."""
    if not PROGRAM.exists():
        return ""
    out = subprocess.run([PROGRAM, "--table", ROOT / "bench/results/faults.jsonl"], check=True, capture_output=True, text=True).stdout
    blocks = [block for block in out.split("\n\n") if block.startswith("|")]
    return blocks[number].rstrip()


@table
def faults_by_kind():
    return printed(0)


@table
def faults_by_strategy():
    return printed(1)
