"""Accuracy after a training run: bench/training/convergence.sh."""
import re

from .form import count, factor, by, lines, lost, markdown, mean, percent, seeds, table


def at_rate(run):
    """The learning rate, if it is not that of the table."""
    found = re.search(r" (lr [0-9.]+) seed", run["run"])
    return f", {found.group(1)}" if found else ""


def mass_lost(runs):
    """Of what was picked, the share that the residual rule dropped."""
    if "mass_lost" not in runs[0]["detail"]:
        return ""
    return f"{mean(runs, lambda run: run['detail']['mass_lost']):.4f}"


def lenet(strategies, workers=(4,), further=()):
    """One row per strategy and number of workers; `further` are more columns, as (heading, function of the runs)."""
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
            row = [strategy, size, *cells, *[""] * (3 - len(cells))]
            if any(lost(run) for run in group):
                rows.append([*row, "", "", "", *["" for _ in further]])
                continue
            sent, whole = (mean(runs, lambda run: run["bytes_per_worker_step"]) for runs in (group, dense))
            rows.append([*row, percent(mean(group, lambda run: run["accuracy"])), count(sent), factor(whole / sent),
                         *[read(group) for _, read in further]])
    return rows and markdown(["strategy", "workers", "seed 1", "2", "3", "mean", "bytes per worker and step", "fewer than dense",
                              *[heading for heading, _ in further]], rows)


@table
def sparse_lenet():
    spec = ":density=0.01"
    return lenet(["dense", "topk" + spec, "gtopk" + spec, f"gtopk{spec},residual=paper", f"gtopk{spec},residual=absorb"], (4, 8),
                 [("mass lost", mass_lost)])


@table
def quantized_lenet():
    return lenet(["dense", "dense:dtype=bf16", "qsgd:bits=2", "qsgd", "qsgd:bits=6", "qsgd:scales=2+6", "qsgd:bits=2,bucket=whole",
                  "qsgd:bucket=whole", "qsgd:scales=2+6,bucket=whole", "grandk", "powersgd", "powersgd:rank=2", "powersgd:rank=4",
                  "dense, lr 0.02", "powersgd, lr 0.02"])


def resnet20(strategies, further=()):
    runs = {line["strategy"]: line for line in lines("convergence") if line["model"] == "resnet20"}
    if "dense" not in runs:
        return ""
    whole = runs["dense"]["bytes_per_worker_step"]
    return markdown(["strategy", "accuracy", "bytes per worker and step", "fewer than dense", *[heading for heading, _ in further]],
                    [[strategy, percent(runs[strategy]["accuracy"]), count(runs[strategy]["bytes_per_worker_step"]),
                      factor(whole / runs[strategy]["bytes_per_worker_step"]), *[read([runs[strategy]]) for _, read in further]]
                     for strategy in strategies if strategy in runs])


def most_changes(runs):
    """How often a parameter was changed on average, at most: in each step k of them are, with topk those of every worker."""
    spec, steps = runs[0]["strategy"], runs[0]["steps"]
    if spec.startswith("dense"):
        return f"{steps}"
    density = re.search(r"density=([0-9.]+)", spec)
    share = float(density.group(1)) if density else 0.001
    return f"{steps * share * (runs[0]['workers'] if spec.startswith('topk') else 1):.1f}"


@table
def sparse_resnet20():
    return resnet20(["dense", "topk", "gtopk", "gtopk:residual=paper", "gtopk:density=0.01"],
                    [("changes per parameter, at most", most_changes), ("mass lost", mass_lost)])


@table
def quantized_resnet20():
    return resnet20(["dense", "qsgd", "qsgd:bits=2", "qsgd:scales=2+6", "grandk"])
