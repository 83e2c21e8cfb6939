"""The parameter server: bench/training/server.sh, bench/server.sh."""
import re

from .exchange import netlab
from .form import by, count, lines, lost, markdown, mean, percent, seconds, seeds, table


def density_of(spec):
    """As given, or the default of ps; dense has none."""
    given = re.search(r"density=([0-9.]+)", spec)
    return given.group(1) if given else "0.01" if spec.startswith("ps") else None


def server_runs(group, density):
    """Runs of a group of bench/training/server.sh by strategy, without the density that all of them share."""
    wanted = [{"name": run["strategy"].replace(f"density={density}", "").replace(":,", ":").rstrip(":"), **run}
              for run in lines("server") if run["run"].startswith(group + " seed") and density_of(run["strategy"]) == density]
    return by(wanted, "name")


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
                              "accuracy", "against topk, points"], rows)


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
