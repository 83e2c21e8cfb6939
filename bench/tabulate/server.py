"""The parameter server: bench/training/server.sh, bench/server.sh."""
import re

from .exchange import netlab
from .form import by, count, lines, lost, markdown, mean, percent, seconds, seeds, table, titled


def density_of(spec):
    """Returns the density of a spec, or None: dense has none."""
    given = re.search(r"density=([0-9.]+)", spec)
    return given.group(1) if given else None


def server_runs(group, density):
    """Returns the runs of a group of bench/training/server.sh by strategy, without the density that all share."""
    def name(spec):
        return titled(spec.replace(f"density={density}", "").replace(":,", ":").rstrip(":"))

    runs = [run for run in lines("server") if run["run"].startswith(group + " seed")]
    runs = [run for run in runs if density_of(run["strategy"]) == density]
    return by([{"name": name(run["strategy"]), **run} for run in runs], "name")


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
            accuracy = mean(found, lambda run: run["accuracy"])
            rows.append([density, name, *(of_server(found, down_of_plain) if served else [""] * 4),
                         seconds(mean(found, lambda run: run["seconds"] / run["steps"])),
                         " ".join(percent(run["accuracy"]) for run in sorted(found, key=seeds)),
                         f"{100 * (accuracy - accuracy_of_topk):+.2f}"])
    return rows and markdown(["density", "strategy", "union / k", "bytes up per step", "bytes down per step",
                              "down, against magnitude", "time per step", "accuracy", "against topk, points"], rows)


def of_server(runs, down_of_plain):
    """Returns the cells that only strategies with a server have."""
    union, up, down = (mean(runs, lambda run, key=key: run["detail"][key])
                       for key in ("union_over_k", "bytes_up", "bytes_down"))
    return [f"{union:.2f}", count(up), count(down), f"{100 * (down / down_of_plain - 1):+.0f} %"]


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
