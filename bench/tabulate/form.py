"""What all tables are made of: recorded lines, groups of them, and figures as text."""
import json
import pathlib
import re
import statistics

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLES = {}


def table(function):
    TABLES[function.__name__.replace("_", "-")] = function
    return function


def lines(name):
    path = ROOT / "bench/results" / f"{name}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def markdown(header, rows):
    out = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(out + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def seconds(value):
    if value is None:
        return ""
    return f"{value:.3f} s" if value >= 1 else f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.1f} ms"


def percent(accuracy):
    return f"{accuracy * 100:.2f}"


def count(value):
    return f"{value:,.0f}"


def factor(value):
    return f"{value:.1f} x" if value < 20 else f"{value:.0f} x"


def by(records, *keys):
    """Records in groups of equal keys, in order of appearance."""
    groups = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in keys), []).append(record)
    return groups


# --- Of training runs.


def mean(runs, read):
    return statistics.mean(read(run) for run in runs)


def seeds(record):
    return int(re.search(r" seed (\d+)", record["run"]).group(1))


def lost(run):
    """Whether the model became infinite; such a run ends, or it goes on with the accuracy of guessing."""
    return run.get("diverged", False) or run["accuracy"] < 0.12


def reached(run, accuracy):
    """When a test of the run first showed that accuracy, if one did."""
    return next((time for time, found in run["curve"] if found >= accuracy), None)
