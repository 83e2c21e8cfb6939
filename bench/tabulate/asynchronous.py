"""Strategies that exchange models: bench/training/asynchronous.sh."""
from .form import by, count, label, lines, lost, markdown, mean, percent, reached, seconds, seeds, table


def asynchronous(group):
    """Returns the runs of a group of bench/training/asynchronous.sh."""
    return [line for line in lines("asynchronous") if line["run"].startswith(group + " seed")]


# Further gossips of the table, which shows their keys.
GOSSIPS = tuple(map(label, ("gossip:kappa=3", "gossip:trigger=period,period=4",
                            "gossip:trigger=period,period=2,peers=exp", "gossip:bits=4,kappa=0.5,peers=exp",
                            "gossip:bits=4,trigger=period,period=3,peers=exp")))
BY_CHANGE = "by change (`kappa=5`)"
EVERY_STEP = "every step"
EQUAL_TRAFFIC = "fixed period of equal traffic"  # the period differs from seed to seed


def kind(strategy):
    """Returns the name of a gossip in a table."""
    if strategy in GOSSIPS:
        return f"`{strategy}`"
    if strategy == label("gossip:trigger=period"):
        return EVERY_STEP
    if strategy.startswith(label("gossip:trigger=period") + ","):
        return EQUAL_TRAFFIC
    return BY_CHANGE if strategy == label("gossip") else strategy


def traffic(groups):
    rows = []
    for title, group in groups:
        runs = by([{"kind": kind(run["strategy"]), **run} for run in asynchronous(group)], "kind")
        for name in (EVERY_STEP, BY_CHANGE, *map(kind, GOSSIPS), EQUAL_TRAFFIC):
            found = sorted(runs.get((name,), []), key=seeds)
            often = runs.get((EVERY_STEP,), [])
            if not found or not often:
                continue
            sent = mean(found, lambda run: run["bytes_per_worker_step"])
            whole = mean(often, lambda run: run["bytes_per_worker_step"])
            rows.append([title, name, " ".join(percent(run["accuracy"]) for run in found),
                         percent(mean(found, lambda run: run["accuracy"])), count(sent),
                         f"{mean(found, lambda run: run['detail']['interval_mean']):.1f}",
                         f"{100 * (1 - sent / whole):.1f} %",
                         f"{mean(found, lambda run: run['consensus_distance']):.4f}"])
    return rows and markdown(["", "gossip", "accuracy of the seeds", "mean", "bytes per worker and step",
                              "steps between messages", "bytes saved", "consensus distance at the end"], rows)


@table
def gossip_traffic():
    return traffic([("LeNet, 8 workers, sim", "lenet traffic sim 8"),
                    ("the same, lr 0.05", "lenet traffic sim 8 lr 0.05"),
                    ("LeNet, 4 workers, gloo", "lenet traffic gloo 4"),
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
            rows.append([network, kind(run["strategy"]), seconds(run["seconds"]), percent(run["accuracy"]),
                         count(run["bytes_per_worker_step"]), seconds(reached(run, 0.98))])
    return rows and markdown(["network", "", "time of the run", "accuracy", "bytes per worker and step",
                              "time to 98 %"], rows)


@table
def lasgd_speed():
    rows = []
    for where, title in (("sim 8", "8, simulated"), ("sim 16", "16, simulated"), ("netlab 4", "4, netlab")):
        for case in ("equal", "slow"):
            for run in asynchronous(f"lenet {case} {where}"):
                values = ["diverged", "", "", "", ""] if lost(run) else [
                    percent(run["accuracy"]), seconds(run["seconds"]), seconds(reached(run, 0.98)),
                    *throughput(run, case == "slow")]
                name = "gossip" if run["strategy"] == label("gossip") else run["strategy"]
                rows.append([title, "one 3 times slower" if case == "slow" else "equally fast", name, *values])
    return rows and markdown(["workers", "", "strategy", "accuracy", "time of the run", "time to 98 %",
                              "of the sum of the workers' own speeds", "after the first 94 steps"], rows)


def throughput(run, slow):
    """Returns the samples per second as a share of those of workers that do not wait (known where steps take a given
    time): in the whole run, and between the first of its tests, after 94 steps, and the last."""
    if run["transport"] != "sim":
        return ["", ""]
    alone = (run["workers"] - (2 / 3 if slow else 0)) * (128 / run["workers"]) / 0.02
    first, last = run["curve"][0][0], run["curve"][-1][0]
    later = run["samples"] - 94 * 128
    return [f"{100 * samples / time / alone:.1f} %"
            for samples, time in ((run["samples"], run["seconds"]), (later, last - first))]
