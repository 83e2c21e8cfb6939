"""Accuracy after a training run: bench/training/convergence.sh."""
import re

from .form import by, count, factor, label, lines, lost, markdown, mean, percent, seeds, table, titled


def at_rate(run):
    """Returns the learning rate, if it is not that of the table."""
    found = re.search(r" (lr [0-9.]+) seed", run["run"])
    return f", {found.group(1)}" if found else ""


def mass_lost(runs):
    """Returns the share of the picks that the residual rule dropped."""
    if "mass_lost" not in runs[0]["detail"]:
        return ""
    return f"{mean(runs, lambda run: run['detail']['mass_lost']):.4f}"


def lenet(strategies, workers=(4,), further=()):
    """Makes one row per strategy and number of workers. `further` are more columns, as (heading, function of runs)."""
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
            cells = ["diverged" if lost(run) else percent(run["accuracy"]) for run in group]
            row = [titled(strategy), size, *cells, *[""] * (3 - len(cells))]
            if any(lost(run) for run in group):
                rows.append([*row, "", "", "", *["" for _ in further]])
                continue
            sent, whole = (mean(runs, lambda run: run["bytes_per_worker_step"]) for runs in (group, dense))
            rows.append([*row, percent(mean(group, lambda run: run["accuracy"])), count(sent), factor(whole / sent),
                         *[read(group) for _, read in further]])
    return rows and markdown(["strategy", "workers", "seed 1", "2", "3", "mean", "bytes per worker and step",
                              "fewer than dense", *[heading for heading, _ in further]], rows)


@table
def sparse_lenet():
    gtopk = "gtopk:density=0.01"
    return lenet(["dense", "topk:density=0.01", gtopk, f"{gtopk},residual=paper", f"{gtopk},residual=absorb"],
                 (4, 8), [("mass lost", mass_lost)])


@table
def quantized_lenet():
    return lenet(["dense", "dense:dtype=bf16", "qsgd:bits=2", "qsgd", "qsgd:bits=6", "qsgd:scales=2+6",
                  "qsgd:bits=2,bucket=whole", "qsgd:bucket=whole", "qsgd:scales=2+6,bucket=whole", label("grandk"),
                  *[label(f"powersgd:rank={rank}") for rank in (1, 2, 4)],
                  "dense, lr 0.02", label("powersgd") + ", lr 0.02"])


def resnet20(strategies, further=()):
    runs = {line["strategy"]: line for line in lines("convergence") if line["model"] == "resnet20"}
    if "dense" not in runs:
        return ""
    whole = runs["dense"]["bytes_per_worker_step"]
    rows = []
    for strategy in strategies:
        if strategy in runs:
            run = runs[strategy]
            sent = run["bytes_per_worker_step"]
            rows.append([strategy, percent(run["accuracy"]), count(sent), factor(whole / sent),
                         *[read([run]) for _, read in further]])
    return markdown(["strategy", "accuracy", "bytes per worker and step", "fewer than dense",
                     *[heading for heading, _ in further]], rows)


def most_changes(runs):
    """Returns how often a parameter was changed on average, at most: k in each step, with topk k of every worker."""
    spec, steps = runs[0]["strategy"], runs[0]["steps"]
    if spec.startswith("dense"):
        return f"{steps}"
    density = float(re.search(r"density=([0-9.]+)", spec).group(1))
    return f"{steps * density * (runs[0]['workers'] if spec.startswith('topk') else 1):.1f}"


@table
def sparse_resnet20():
    return resnet20(["dense", label("topk"), label("gtopk"), label("gtopk:residual=paper"), "gtopk:density=0.01"],
                    [("changes per parameter, at most", most_changes), ("mass lost", mass_lost)])


@table
def quantized_resnet20():
    return resnet20(["dense", "qsgd", "qsgd:bits=2", "qsgd:scales=2+6", label("grandk")])
