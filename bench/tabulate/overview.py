"""All strategies side by side: bench/training/overview.sh."""
from .form import count, factor, lines, lost, markdown, percent, reached, seconds, table


def overview(where):
    """Returns the runs of bench/training/overview.sh by (strategy, rate). Where several learning rates were tried, it
    is the last one, at which the run did not diverge."""
    return {(run["strategy"], run["rate"]): run for run in lines("overview") if run["run"].startswith(where + " ")}


def lower_rate(run, more=""):
    """Returns the learning rate, if the run diverged at the usual one, and more text with it."""
    _, found, rate = run["run"].partition(" lr ")
    return f" (lr {rate}{more and ': ' + more})" if found else ""


def strategies_of(runs):
    """Returns the strategies in the order of the runs; variants follow the strategy to which they belong."""
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
            known = run and baseline
            row += [seconds(run["seconds"]), factor(baseline["seconds"] / run["seconds"])] if known else ["", ""]
        rows.append(row)
    return rows and markdown(["strategy", "accuracy", "bytes per worker and step", "1 Gbit/s: time", "against dense",
                              "100 Mbit/s: time", "against dense"], rows)


@table
def overview_sim():
    sizes = (8, 16, 32)
    runs = {size: overview(f"sim {size}") for size in sizes}
    rows = []
    for strategy in strategies_of(runs[8]):
        row = [strategy]
        for rate, read in (("1gbit", lambda run: percent(run["accuracy"]) + lower_rate(run)),
                           ("1gbit", lambda run: count(run["bytes_per_worker_step"] / 1000)),
                           ("1gbit", lambda run: f"{run['seconds']:.1f}"),
                           ("100mbit",
                            lambda run: f"{run['seconds']:.1f}" + lower_rate(run, percent(run["accuracy"])))):
            found = [runs[size].get((strategy, rate)) for size in sizes]
            row.append(" / ".join("-" if not run else "diverged" if lost(run) else read(run) for run in found))
        rows.append(row)
    return rows and markdown(["strategy", "accuracy, 8 / 16 / 32 workers", "kB per worker and step",
                              "1 Gbit/s: seconds", "100 Mbit/s: seconds"], rows)


# --- Time to an accuracy on a slow network.

GOAL = 0.985


def time_to_accuracy(runs):
    """Returns a table of runs by strategy, each next to dense; a run may have been tried at a lower learning rate."""
    rows, dense = [], runs.get("dense")
    for strategy, run in runs.items() if dense else ():
        row = [f"`{strategy}`{lower_rate(run)}", percent(run["accuracy"]),
               count(run["bytes_per_worker_step"] / 1000)]
        for read in (lambda each: each["seconds"], lambda each: reached(each, GOAL)):
            took, slowest = read(run), read(dense)
            row += [f"{took:.1f} s", factor(slowest / took)] if took else ["never", ""]
        rows.append(row)
    return rows and markdown(["strategy", "accuracy, %", "kB per worker and step", "time of the run", "faster",
                              f"to {100 * GOAL:.1f} %", "sooner"], rows)


@table
def overview_thin():
    return time_to_accuracy({strategy: run for (strategy, _), run in overview("thin 8").items()})
