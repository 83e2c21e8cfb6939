"""PyTorch programs: a step by bench/pytorch.sh, accuracy by bench/training/pytorch.sh."""
import re
import statistics

from .form import by, count, factor, lines, markdown, mean, percent, seconds, seeds, table


def median(runs, key):
    """Over the rounds; None if the program does not have this measurement."""
    values = [run[key] for run in runs if key in run]
    return statistics.median(values) if values else None


def steps(rate):
    """One row per program. The last column compares the step with the shortest one of DDP's own hooks."""
    runs = by([line for line in lines("pytorch-netlab") if "program" in line and line["rate"] == rate], "program")
    of_ddp = [median(found, "seconds_median") for (program,), found in runs.items() if program.startswith("ddp:")]
    rows = []
    for (program,), found in runs.items():
        step, hidden = median(found, "seconds_median"), median(found, "hidden_share")
        rows.append([f"`{program}`", seconds(step), seconds(median(found, "seconds_computing")),
                     seconds(median(found, "seconds_exchange")), "" if hidden is None else f"{100 * hidden:.0f} %",
                     count(median(found, "bytes_per_worker")), factor(min(of_ddp) / step) if of_ddp else ""])
    return rows and markdown(["program", "step", "computing alone", "exchange alone", "hidden",
                              "bytes per worker and step", "against the best hook of DDP"], rows)


@table
def pytorch_1gbit():
    return steps("1gbit")


@table
def pytorch_100mbit():
    return steps("100mbit")


def select_of(spec):
    """The key `select` of a spec, and the spec without it."""
    found = re.search(r"[:,]select=(\w+)", spec)
    return {"program": spec.replace(found.group(0), "") if found else spec, "select": found.group(1) if found else ""}


def accuracy_runs(model):
    found = [line for line in lines("pytorch-accuracy") if line["model"] == model]
    bucketed = " of 4 buckets"
    return [{**line, "bucketed": line["run"].endswith(bucketed), **select_of(line["strategy"])} for line in found]


@table
def pytorch_accuracy():
    """LeNet with every program; bytes are known of thinwire's programs only."""
    groups = by([run for run in accuracy_runs("lenet") if not run["bucketed"]], "strategy")
    rows = []
    for (program,), runs in groups.items():
        runs = sorted(runs, key=seeds)
        sent = [run["bytes_per_worker_step"] for run in runs if "bytes_per_worker_step" in run]
        rows.append([f"`{program}`", *[percent(run["accuracy"]) for run in runs], *[""] * (3 - len(runs)),
                     percent(mean(runs, lambda run: run["accuracy"])), count(statistics.mean(sent)) if sent else ""])
    return rows and markdown(["program", "seed 1", "2", "3", "mean", "bytes per worker and step"], rows)


@table
def pytorch_selection():
    groups = by([run for model in ("lenet", "resnet20") for run in accuracy_runs(model) if run["bucketed"]],
                "model", "program", "select")
    rows = []
    for (model, program) in dict.fromkeys((model, program) for model, program, _ in groups):
        row = [model, f"`{program}`"]
        for select in ("global", "bucket", "carry"):
            runs = sorted(groups.get((model, program, select), []), key=seeds)
            row.append(", ".join(percent(run["accuracy"]) for run in runs))
        steps_ = [statistics.mean(run["seconds_per_step"] for run in groups[model, program, select])
                  for select in ("global", "bucket", "carry") if (model, program, select) in groups]
        rows.append([*row, " / ".join(f"{1000 * step:.0f}" for step in steps_)])
    return rows and markdown(["model", "strategy", "`global`", "`bucket`", "`carry`", "ms per step, in this order"], rows)
