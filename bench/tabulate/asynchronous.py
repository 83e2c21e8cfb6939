"""Models that are exchanged now and then: bench/training/asynchronous.sh."""
from .form import by, count, lines, lost, markdown, mean, percent, reached, seconds, seeds, table


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
            sent = mean(found, lambda run: run["bytes_per_worker_step"])
            whole = mean(often, lambda run: run["bytes_per_worker_step"])
            accuracy = [run["accuracy"] for run in found]
            rows.append([title, name, " ".join(percent(a) for a in accuracy), percent(mean(found, lambda run: run["accuracy"])), count(sent),
                         f"{mean(found, lambda run: run['detail']['interval_mean']):.1f}", f"{100 * (1 - sent / whole):.1f} %",
                         f"{mean(found, lambda run: run['consensus_distance']):.4f}"])
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
