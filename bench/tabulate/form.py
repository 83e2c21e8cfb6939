"""The parts of all tables: recorded lines, groups of them, and values as text."""
import json
import pathlib
import re
import statistics

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLES = {}


def table(function):
    TABLES[function.__name__.replace("_", "-")] = function
    return function


# --- Recorded lines. Those of the files below were measured with 0.1, where a name without keys meant other keys than
# today. The scripts name all keys now; `label` gives old and new lines the same name.

OF_0_1 = {"asynchronous", "convergence", "overview", "scaling", "server", "server-netlab", "sparse-netlab",
          "quantized-netlab"}
DEFAULTS_OF_0_1 = {"topk": {"density": "0.001"}, "gtopk": {"density": "0.001"}, "ps": {"density": "0.01"},
                   "grandk": {"density": "0.01"}, "powersgd": {"rank": "1", "start": "100"},
                   "gossip": {"bits": "32", "kappa": "5", "peers": "random"}}
# The scripts give these as well, because the present defaults are others; all lines of a table have them.
NOT_IN_LABELS = {"momentum=corrected", "warmup=none"}
REMOVED = {"residual=absorb", "shape=tree", "select=frequency", "select=age", "select=leader"}


def label(spec):
    """Returns the spec with the keys that a name without them meant in 0.1, these first."""
    name, _, given = spec.partition(":")
    if name not in DEFAULTS_OF_0_1:
        return spec
    keys = dict(DEFAULTS_OF_0_1[name])
    keys.update(key.split("=") for key in given.split(",") if key and key not in NOT_IN_LABELS)
    if keys.get("trigger") == "period":
        del keys["kappa"]
    return f"{name}:" + ",".join(f"{key}={value}" for key, value in keys.items())


def label_of_run(run):
    """Returns the name of a run, which contains a spec as one of its words, with that spec as a label."""
    return " ".join(map(label, run.split(" ")))


def titled(spec):
    """Returns the spec as it stands in a table: options that exist no longer are marked."""
    return f"{spec} (removed after 0.1)" if REMOVED.intersection(spec.partition(":")[2].split(",")) else spec


def lines(name):
    path = ROOT / "bench/results" / f"{name}.jsonl"
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    if name in OF_0_1:
        for line in found:
            line.update({key: label(line[key]) for key in ("strategy", "program") if key in line})
            line.update({key: label_of_run(line[key]) for key in ("run",) if key in line})
    return found


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
    """Returns the records in groups of equal keys, in order of appearance."""
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
    """Returns whether the model became infinite. Such a run ends, or goes on with the accuracy of guessing."""
    return run.get("diverged", False) or run["accuracy"] < 0.12


def reached(run, accuracy):
    """Returns the time at which a test of the run first showed that accuracy, or None."""
    return next((time for time, found in run["curve"] if found >= accuracy), None)
