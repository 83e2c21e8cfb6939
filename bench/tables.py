#!/usr/bin/env python3
"""Writes the measurements in bench/results/ into the tables of docs/results/.

A page marks the place of a table:

    <!-- table NAME -->
    ... (what stands here is replaced)
    <!-- end of table -->

NAME is one of the functions below that are marked with @table. `bench/tables.py` rewrites all pages,
`bench/tables.py --check` only says which would change (exit 1). A table without measurements stays as it is.
"""
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
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


# --- One exchange over a real wire.


def netlab(name, rate_bits=1e9, names=None, baseline="dense"):
    runs = by([{"program": line.get("program", line.get("strategy")), **line}
               for line in lines(name) if "seconds_median" in line], "program")
    rows, first = [], None
    for (program,), group in runs.items():
        median = statistics.median(run["seconds_median"] for run in group)
        codec = [run["seconds_codec"] for run in group if run.get("seconds_codec")]
        sent = group[0]["bytes_per_worker"]
        first = first or median
        rows.append([(names or {}).get(program, program), seconds(median), seconds(statistics.median(codec)) if codec else "",
                     count(sent), f"{median * rate_bits / (8 * sent):.2f}", factor(first / median)])
    return rows and markdown(["strategy", "step", "of it computing", "bytes per worker", "x wire time of its bytes", f"against {baseline}"], rows)


@table
def quantized_netlab():
    return netlab("quantized-netlab")


@table
def sparse_netlab():
    return netlab("sparse-netlab")


# --- Accuracy after a training run.


def seeds(record):
    return int(re.search(r" seed (\d+)", record["run"]).group(1))


def at_rate(run):
    """The learning rate, if it is not that of the table."""
    found = re.search(r" (lr [0-9.]+) seed", run["run"])
    return f", {found.group(1)}" if found else ""


def lost(run):
    """Whether the model became infinite; such a run ends, or it goes on with the accuracy of guessing."""
    return run.get("diverged", False) or run["accuracy"] < 0.12


def lenet(strategies, workers=(4,)):
    wanted = [{**line, "strategy": line["strategy"] + at_rate(line)} for line in lines("convergence")
              if line["model"] == "lenet" and line["workers"] in workers]
    groups = by(wanted, "workers", "strategy")
    rows = []
    for size in workers:
        dense = groups.get((size, "dense"))
        for strategy in strategies:
            group = sorted(groups.get((size, strategy), []), key=seeds)
            if not group or not dense:
                continue
            ended = [run for run in group if not lost(run)]
            cells = ["diverged" if lost(run) else percent(run["accuracy"]) for run in group]
            row = [strategy, size, *cells, *[""] * (3 - len(cells))]
            if len(ended) < len(group):
                rows.append([*row, "", "", ""])
                continue
            sent = statistics.mean(run["bytes_per_worker_step"] for run in ended)
            whole = statistics.mean(run["bytes_per_worker_step"] for run in dense)
            rows.append([*row, percent(statistics.mean(run["accuracy"] for run in ended)), count(sent), factor(whole / sent)])
    return rows and markdown(["strategy", "workers", "seed 1", "2", "3", "mean", "bytes per worker and step", "fewer than dense"], rows)


@table
def sparse_lenet():
    spec = ":density=0.01"
    return lenet(["dense", "topk" + spec, "gtopk" + spec, f"gtopk{spec},residual=paper", f"gtopk{spec},residual=absorb"], (4, 8))


@table
def quantized_lenet():
    return lenet(["dense", "dense:dtype=bf16", "qsgd:bits=2", "qsgd", "qsgd:bits=6", "qsgd:scales=2+6", "qsgd:bits=2,bucket=whole",
                  "qsgd:bucket=whole", "qsgd:scales=2+6,bucket=whole", "grandk", "powersgd", "powersgd:rank=2", "powersgd:rank=4",
                  "dense, lr 0.02", "powersgd, lr 0.02"])


def resnet20(strategies):
    runs = {line["strategy"]: line for line in lines("convergence") if line["model"] == "resnet20"}
    if "dense" not in runs:
        return ""
    whole = runs["dense"]["bytes_per_worker_step"]
    return markdown(["strategy", "accuracy", "bytes per worker and step", "fewer than dense"],
                    [[strategy, percent(runs[strategy]["accuracy"]), count(runs[strategy]["bytes_per_worker_step"]),
                      factor(whole / runs[strategy]["bytes_per_worker_step"])] for strategy in strategies if strategy in runs])


@table
def sparse_resnet20():
    return resnet20(["dense", "topk", "gtopk", "gtopk:residual=paper", "gtopk:density=0.01"])


@table
def quantized_resnet20():
    return resnet20(["dense", "qsgd", "qsgd:bits=2", "qsgd:scales=2+6", "grandk"])


# --- Models that are exchanged now and then.


def asynchronous(group):
    """Runs of a group of bench/training/asynchronous.sh."""
    return [line for line in lines("asynchronous") if line["run"].startswith(group + " seed")]


# Further gossips of the table, by their spec.
GOSSIPS = ("gossip:kappa=3", "gossip:trigger=period,period=4", "gossip:trigger=period,period=2,peers=exp", "gossip:bits=4,kappa=0.5,peers=exp",
           "gossip:bits=4,trigger=period,period=3,peers=exp")


def kind(strategy):
    """How a gossip is told apart in a table; the period of equal traffic differs from seed to seed."""
    if strategy in GOSSIPS:
        return f"`{strategy}`"
    if strategy == "gossip:trigger=period":
        return "every step"
    if strategy.startswith("gossip:trigger=period,"):
        return "fixed period of equal traffic"
    return "by change (default)" if strategy == "gossip" else strategy


def traffic(groups):
    rows = []
    for title, group in groups:
        runs = by([{"kind": kind(run["strategy"]), **run} for run in asynchronous(group)], "kind")
        for name in ("every step", "by change (default)", *map(kind, GOSSIPS), "fixed period of equal traffic"):
            found = sorted(runs.get((name,), []), key=seeds)
            often = runs.get(("every step",), [])
            if not found or not often:
                continue
            sent = statistics.mean(run["bytes_per_worker_step"] for run in found)
            whole = statistics.mean(run["bytes_per_worker_step"] for run in often)
            accuracy = [run["accuracy"] for run in found]
            rows.append([title, name, " ".join(percent(a) for a in accuracy), percent(statistics.mean(accuracy)), count(sent),
                         f"{statistics.mean(run['detail']['interval_mean'] for run in found):.1f}", f"{100 * (1 - sent / whole):.1f} %",
                         f"{statistics.mean(run['consensus_distance'] for run in found):.4f}"])
    return rows and markdown(["", "gossip", "accuracy of the seeds", "mean", "bytes per worker and step", "steps between messages", "bytes saved",
                              "consensus distance at the end"], rows)


@table
def gossip_traffic():
    return traffic([("LeNet, 8 workers, sim", "lenet traffic sim 8"), ("the same, lr 0.05", "lenet traffic sim 8 lr 0.05"), ("LeNet, 4 workers, gloo", "lenet traffic gloo 4"),
                    ("ResNet-20, 4 workers, gloo", "resnet20 traffic gloo 4")])


@table
def gossip_time():
    rows = []
    for network in ("1gbit", "100mbit"):
        runs = asynchronous(f"lenet time {network},0.1ms sim 8")
        for run in runs:
            if lost(run):
                rows.append([network, kind(run["strategy"]), "", "diverged", "", ""])
                continue
            sent = run["bytes_per_worker_step"]
            rows.append([network, kind(run["strategy"]), seconds(run["seconds"]), percent(run["accuracy"]), count(sent),
                         seconds(reached(run, 0.98))])
    return rows and markdown(["network", "", "time of the run", "accuracy", "bytes per worker and step", "time to 98 %"], rows)


def reached(run, accuracy):
    return next((time for time, found in run["curve"] if found >= accuracy), None)


@table
def lasgd_speed():
    rows = []
    for where, title in (("sim 8", "8, simulated"), ("sim 16", "16, simulated"), ("netlab 4", "4, netlab")):
        for case in ("equal", "slow"):
            for run in asynchronous(f"lenet {case} {where}"):
                figures = ["diverged", "", "", "", ""] if lost(run) else [
                    percent(run["accuracy"]), seconds(run["seconds"]), seconds(reached(run, 0.98)), *throughput(run, case == "slow")]
                rows.append([title, "one 3 times slower" if case == "slow" else "equally fast", run["strategy"], *figures])
    return rows and markdown(["workers", "", "strategy", "accuracy", "time of the run", "time to 98 %", "of the sum of the workers' own speeds", "after the first 94 steps"], rows)


def throughput(run, slow):
    """Samples per second, of what the workers would do alone (known where steps take a given time): of the whole run, and between
    the first of its tests, after 94 steps, and the last."""
    if run["transport"] != "sim":
        return ["", ""]
    alone = (run["workers"] - (2 / 3 if slow else 0)) * (128 / run["workers"]) / 0.02
    first, last = run["curve"][0][0], run["curve"][-1][0]
    later = run["samples"] - 94 * 128
    return [f"{100 * samples / time / alone:.1f} %" for samples, time in ((run["samples"], run["seconds"]), (later, last - first))]


# --- The parameter server.


def density_of(spec):
    """As given, or the default of ps; dense has none."""
    given = re.search(r"density=([0-9.]+)", spec)
    return given.group(1) if given else "0.01" if spec.startswith("ps") else None


def server_runs(group, density):
    """Runs of a group of bench/training/server.sh by strategy, without the density that all of them share."""
    wanted = [{"name": run["strategy"].replace(f"density={density}", "").replace(":,", ":").rstrip(":"), **run}
              for run in lines("server") if run["run"].startswith(group + " seed") and density_of(run["strategy"]) == density]
    return by(wanted, "name")


def mean(runs, read):
    return statistics.mean(read(run) for run in runs)


def server(group):
    rows = []
    for density in ("0.01", "0.001"):
        runs = server_runs(group, density)
        plain = runs.get(("ps:select=magnitude",), [])
        if not plain:
            continue
        accuracy_of_topk = mean(runs.get(("topk",), plain), lambda run: run["accuracy"])
        down_of_plain = mean(plain, lambda run: run["detail"]["bytes_down"])
        for (name,), found in runs.items():
            if any(lost(run) for run in found):
                rows.append([density, name, "", "", "", "", "", "diverged", ""])
                continue
            served = "bytes_down" in found[0]["detail"]
            detail = lambda key: mean(found, lambda run: run["detail"][key])
            accuracy = mean(found, lambda run: run["accuracy"])
            rows.append([density, name, f"{detail('union_over_k'):.2f}" if served else "", count(detail("bytes_up")) if served else "",
                         count(detail("bytes_down")) if served else "",
                         f"{100 * (detail('bytes_down') / down_of_plain - 1):+.0f} %" if served else "",
                         seconds(mean(found, lambda run: run["seconds"] / run["steps"])), " ".join(percent(run["accuracy"]) for run in sorted(found, key=seeds)),
                         f"{100 * (accuracy - accuracy_of_topk):+.2f}"])
    return rows and markdown(["density", "strategy", "union / k", "bytes up per step", "bytes down per step", "down, against magnitude", "time per step",
                              "accuracy of the seeds", "against topk, points"], rows)


@table
def server_sim():
    return server("sim 8 workers")


@table
def server_rate():
    return server("sim 8 workers lr 0.02")


@table
def server_training_netlab():
    return server("netlab 4 workers")


@table
def server_netlab():
    return netlab("server-netlab", baseline="topk:density=0.01")


# --- All strategies side by side.


def overview(where):
    """Runs of bench/training/overview.sh by (strategy, rate); of several learning rates the one that was borne, tried last."""
    return {(run["strategy"], run["rate"]): run for run in lines("overview") if run["run"].startswith(where + " ")}


def lower_rate(run, more=""):
    """The learning rate, if the usual one was not borne, and what is to be said with it."""
    _, found, rate = run["run"].partition(" lr ")
    return f" (lr {rate}{more and ': ' + more})" if found else ""


def strategies_of(runs):
    """In the order of the runs; variants stand beside the strategy they belong to."""
    specs = list(dict.fromkeys(spec for spec, _ in runs))
    names = [spec.partition(":")[0] for spec in specs]
    return sorted(specs, key=lambda spec: names.index(spec.partition(":")[0]))


@table
def overview_netlab():
    runs, rows = overview("netlab 4"), []
    for strategy in strategies_of(runs):
        found = [runs.get((strategy, rate)) for rate in ("1gbit", "100mbit")]
        dense = [runs.get(("dense", rate)) for rate in ("1gbit", "100mbit")]
        first = next(run for run in found if run)
        if any(run and lost(run) for run in found):
            rows.append([strategy, "diverged", "", "", "", "", ""])
            continue
        row = [strategy, percent(first["accuracy"]), count(first["bytes_per_worker_step"])]
        for run, baseline in zip(found, dense):
            row += [seconds(run["seconds"]), factor(baseline["seconds"] / run["seconds"])] if run and baseline else ["", ""]
        rows.append(row)
    return rows and markdown(["strategy", "accuracy", "bytes per worker and step", "1 Gbit/s: time", "against dense", "100 Mbit/s: time", "against dense"], rows)


@table
def overview_sim():
    sizes = (8, 16, 32)
    runs = {size: overview(f"sim {size}") for size in sizes}
    rows = []
    for strategy in strategies_of(runs[8]):
        row = [strategy]
        for read, rate in ((lambda run: percent(run["accuracy"]) + lower_rate(run), "1gbit"),
                           (lambda run: count(run["bytes_per_worker_step"] / 1000), "1gbit"), (lambda run: f"{run['seconds']:.1f}", "1gbit"),
                           (lambda run: f"{run['seconds']:.1f}" + lower_rate(run, percent(run["accuracy"])), "100mbit")):
            found = [runs[size].get((strategy, rate)) for size in sizes]
            row.append(" / ".join("-" if not run else "diverged" if lost(run) else read(run) for run in found))
        rows.append(row)
    return rows and markdown(["strategy", "accuracy, 8 / 16 / 32 workers", "kB per worker and step", "1 Gbit/s: seconds", "100 Mbit/s: seconds"], rows)


# --- Pages.


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
