"""Every strategy with no keys, at the hyper-parameters of dense: bench/training/defaults.sh."""
import re
import statistics

from .form import by, count, factor, lines, lost, markdown, mean, percent, seeds, table
from .overview import time_to_accuracy


def runs_of(group):
    """The runs whose names start with `group`, by strategy."""
    found = [line for line in lines("defaults") if line["run"].startswith(group + " seed ")]
    return {strategy: sorted(runs, key=seeds) for (strategy,), runs in by(found, "strategy").items()}


def accuracies(runs):
    return ", ".join("diverged" if lost(run) else percent(run["accuracy"]) for run in runs)


def spread(runs):
    """The standard deviation over seeds, in points; nothing if there is one seed."""
    return f"{100 * statistics.stdev(run['accuracy'] for run in runs):.2f}" if len(runs) > 1 else ""


def detail(runs, *names):
    """The first of these metrics that the strategy has."""
    for name in names:
        if name in runs[0].get("detail", {}):
            return f"{mean(runs, lambda run: run['detail'][name]):.3g}"
    return ""


def images(group):
    groups = runs_of(group)
    if "dense" not in groups:
        return ""
    dense = groups["dense"]
    best = mean(dense, lambda run: run["accuracy"])
    rows = []
    for strategy, runs in groups.items():
        row = [f"`{strategy}`", accuracies(runs)]
        if any(lost(run) for run in runs):
            rows.append([*row, "", "", "", "", "", ""])
            continue
        sent = mean(runs, lambda run: run["bytes_per_worker_step"])
        whole = mean(dense, lambda run: run["bytes_per_worker_step"])
        own = mean(runs, lambda run: run["accuracy"])
        rows.append([*row, percent(own), spread(runs), f"{100 * (own - best):+.2f}", count(sent), factor(whole / sent),
                     detail(runs, "coverage", "rank", "messages_per_worker_step")])
    return markdown(["strategy", "accuracy by seed, %", "mean", "standard deviation", "against dense, points",
                     "bytes per worker and step", "fewer than dense", "coverage, rank or messages"], rows)


@table
def defaults_resnet20():
    return images("resnet20 6 epochs")


@table
def defaults_longer():
    return images("resnet20 15 epochs")


@table
def defaults_lenet():
    sizes, rows = (4, 8, 16, 32), []
    groups = {size: runs_of(f"lenet {size} workers") for size in sizes}
    strategies = list(dict.fromkeys(strategy for size in sizes for strategy in groups[size]))
    for strategy in strategies:
        row = [f"`{strategy}`"]
        for size in sizes:
            runs, dense = groups[size].get(strategy), groups[size].get("dense")
            if not runs or not dense:
                row.append("")
            elif lost(runs[0]):
                row.append("diverged")
            else:
                whole, sent = dense[0]["bytes_per_worker_step"], runs[0]["bytes_per_worker_step"]
                row.append(f"{percent(runs[0]['accuracy'])} ({factor(whole / sent)})")
        rows.append(row)
    return rows and markdown(["strategy", *[f"{size} workers" for size in sizes]], rows)


@table
def readme():
    return time_to_accuracy({strategy: runs[0] for strategy, runs in runs_of("thin 8 workers").items()})


@table
def defaults_text():
    groups = runs_of("lstm")
    if "dense" not in groups:
        return ""
    dense = groups["dense"][0]
    return markdown(["strategy", "loss per token", "bytes per worker and step", "fewer than dense"],
                    [[f"`{strategy}`", f"{runs[0]['loss']:.4f}", count(runs[0]["bytes_per_worker_step"]),
                      factor(dense["bytes_per_worker_step"] / runs[0]["bytes_per_worker_step"])]
                     for strategy, runs in groups.items()])


# --- Coverage: topk and gtopk at several densities.


def coverage_points():
    """(strategy, workers, batch, density, coverage, workers per change, points below dense, factor of bytes)."""
    points = []
    found = [line for line in lines("defaults") if line["run"].startswith("coverage ")]
    for (shape,), runs in by([{**run, "shape": run["run"].partition(" seed ")[0]} for run in found], "shape").items():
        workers, batch = (int(number) for number in re.fullmatch(r"coverage (\d+) workers batch (\d+)", shape).groups())
        dense = next((run for run in runs if run["strategy"] == "dense"), None)
        for run in runs:
            if run is dense or dense is None or lost(run):
                continue
            own = run["detail"]
            points.append((run["strategy"].partition(":")[0], workers, batch, own["density"], own["coverage"],
                           own["workers_per_change"], 100 * (dense["accuracy"] - run["accuracy"]),
                           dense["bytes_per_worker_step"] / run["bytes_per_worker_step"]))
    return points


@table
def defaults_coverage():
    rows = [[f"`{name}`", workers, batch, f"{density:.3g}", f"{coverage:.1f}", f"{met:.2f}", f"{below:.2f}", factor(saved)]
            for name, workers, batch, density, coverage, met, below, saved in coverage_points()]
    return rows and markdown(["strategy", "workers", "batch", "density", "coverage W", "workers per change o",
                              "points below dense", "fewer bytes than dense"], rows)
