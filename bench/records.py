#!/usr/bin/env python3
"""Reads and writes the JSON lines of bench/results/ for the shell scripts of bench/.

    records.py machine BENCH [MEMBER...]     prints the line that names this machine
    records.py extend MEMBER...              copies the lines of stdin, with these members in front
    records.py show FORMAT                   prints each line of stdin by FORMAT, such as '{kernel}: {bits} bits'
    records.py get KEY                       prints a member of the last line of stdin; exit 1 if it has none
    records.py lab-table FILE RATE           prints the medians of a netlab measurement, with their wire bound
    records.py has FILE RUN                  exit 0 if FILE has a line of that run, else 1
    records.py value FILE RUN KEY            prints a member of the run's line, or of its "detail"
    records.py lost FILE RUN                 exit 0 if the model of that run became infinite or only guesses
    records.py add FILE RUN [MEMBER...]      appends the last line of stdin as the line of that run
    records.py curve FILE                    prints the tests in a run.jsonl as curve:=[[seconds, accuracy], ...]

MEMBER is KEY=TEXT or KEY:=JSON. RUN is the member "run" of a line. Lines of 0.1 are found by the keys that a name
without keys meant then (tabulate/form.py).
"""
import json
import os
import platform
import re
import statistics
import subprocess
import sys

from tabulate.form import OF_0_1, label_of_run, lost


def write(record, out=None):
    print(json.dumps(record, separators=(",", ":"), ensure_ascii=False), file=out or sys.stdout, flush=True)


def members(words):
    """Returns the members that KEY=TEXT and KEY:=JSON stand for."""
    found = {}
    for word in words:
        match = re.fullmatch(r"([A-Za-z_]\w*)(:?=)(.*)", word, flags=re.DOTALL)
        if not match:
            sys.exit(f"records.py: '{word}' is neither KEY=TEXT nor KEY:=JSON")
        key, sign, value = match.groups()
        found[key] = json.loads(value) if sign == ":=" else value
    return found


def read(lines):
    """Yields the JSON objects among some lines; anything else that a program printed is left out."""
    for line in lines:
        if line.startswith("{"):
            yield json.loads(line)


def read_file(path):
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        yield from read(file)


def last_of_stdin():
    found = None
    for found in read(sys.stdin):
        pass
    return found


def find(path, run):
    """Returns the line of that run, or None."""
    label = label_of_run if os.path.basename(path).removesuffix(".jsonl") in OF_0_1 else str
    return next((record for record in read_file(path) if label(record.get("run", "")) == label(run)), None)


# --- The machine.


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(": ")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit():
    described = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    return described.stdout.strip() or "unknown"


def cores():
    return len(os.sched_getaffinity(0))


def machine(bench, *words):
    write({"bench": bench, "cpu": cpu_name(), "cores": cores(), **members(words), "commit": commit()})


# --- Lines of stdin.


def extend(*words):
    front = members(words)
    for record in read(sys.stdin):
        write({**front, **record})


def show(form):
    for record in read(sys.stdin):
        print(form.format_map(record), flush=True)


def get(key):
    record = last_of_stdin()
    if record is None or key not in record:
        sys.exit(1)
    print(record[key])


# --- A measurement on netlab.


def bits_per_second(rate):
    """Returns the number for 100mbit or 2.5gbit, and 0 for an unlimited rate."""
    match = re.fullmatch(r"([0-9.]+)([kmg])bit", rate)
    return float(match.group(1)) * {"k": 1e3, "m": 1e6, "g": 1e9}[match.group(2)] if match else 0.0


def lab_table(path, rate):
    """Prints medians over the rounds. The wire bound is that of the bytes that a worker sent; "against" compares with
    the first program."""
    bits = bits_per_second(rate)
    programs = {}
    for record in read_file(path):
        if "seconds_median" in record:
            programs.setdefault(record.get("program", record.get("strategy")), []).append(record)

    def known(function, runs, key):
        values = [run[key] for run in runs if key in run]
        return f"{function(values):.4f}" if values else "-"

    print(f"{'program':<26} {'median s':>10} {'min s':>10} {'max s':>10} {'computing s':>12} {'bytes/worker':>14} "
          f"{'x bound':>8} {'against':>10}")
    first = None
    for program, runs in programs.items():
        seconds = statistics.median(run["seconds_median"] for run in runs)
        sent = runs[-1].get("bytes_per_worker", 0)
        first = first or seconds
        bound = f"{seconds * bits / (8 * sent):.3f}" if bits * sent else "-"
        print(f"{program:<26} {seconds:>10.4f} {known(min, runs, 'seconds_min'):>10} "
              f"{known(max, runs, 'seconds_max'):>10} {known(statistics.median, runs, 'seconds_codec'):>12} "
              f"{sent:>14.0f} {bound:>8} {first / seconds:>8.2f} x")


# --- Training runs.


def has(path, run):
    sys.exit(0 if find(path, run) else 1)


def value(path, run, key):
    record = find(path, run)
    if record is None:
        sys.exit(f"records.py: {path}: no run '{run}'")
    known = {**record.get("detail", {}), **record}
    if key not in known:
        sys.exit(f"records.py: {path}: the run '{run}' has no {key}")
    print(known[key])


def was_lost(path, run):
    record = find(path, run)
    sys.exit(0 if record and lost(record) else 1)


def add(path, run, *words):
    record = last_of_stdin()
    if record is None:
        sys.exit(f"records.py: the run '{run}' printed no line")
    if "data" in record:  # without the directory, which is that of this machine
        record["data"] = record["data"].partition(":")[0]
    with open(path, "a", encoding="utf-8") as file:
        write({"run": run, **members(words), **record, "commit": commit()}, file)


def curve(path):
    tests = [[record["time"], record["test_accuracy"]] for record in read_file(path)
             if "test_accuracy" in record and "time" in record]
    if tests:
        print("curve:=" + json.dumps(tests, separators=(",", ":")))


COMMANDS = {"machine": machine, "extend": extend, "show": show, "get": get, "lab-table": lab_table, "has": has,
            "value": value, "lost": was_lost, "add": add, "curve": curve}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    try:
        COMMANDS[sys.argv[1]](*sys.argv[2:])
    except (TypeError, ValueError, OSError) as error:
        sys.exit(f"records.py: {sys.argv[1]}: {error}")


if __name__ == "__main__":
    main()
