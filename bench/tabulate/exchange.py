"""One exchange of gradients, and its parts: bench/*.sh, bench/training/scaling.sh."""
import statistics

from .form import by, count, factor, label, lines, markdown, seconds, table, titled

# --- Over a real network.


def times_wire(runs, rate_bits=1e9):
    median = statistics.median(run["seconds_median"] for run in runs)
    return f"{median * rate_bits / (8 * runs[0]['bytes_per_worker']):.2f}"


def bytes_per_coordinate(runs):
    found = runs[0].get("detail", {}).get("bytes_per_coordinate")
    return f"{found:.2f}" if found else ""


def netlab(name, baseline="dense", further=("x wire time of its bytes", times_wire)):
    """Makes one row per program, medians of the rounds. `further` is one more column: (heading, function of rounds)."""
    runs = by([{"program": line.get("program", line.get("strategy")), **line}
               for line in lines(name) if "seconds_median" in line], "program")
    rows, first = [], None
    for (program,), group in runs.items():
        median = statistics.median(run["seconds_median"] for run in group)
        computing = [run["seconds_codec"] for run in group if run.get("seconds_codec")]
        first = first or median
        rows.append([titled(program), seconds(median), seconds(statistics.median(computing)) if computing else "",
                     count(group[0]["bytes_per_worker"]), further[1](group), factor(first / median)])
    return rows and markdown(["strategy", "step", "of it computing", "bytes per worker", further[0],
                              f"against {baseline}"], rows)


@table
def quantized_netlab():
    return netlab("quantized-netlab")


@table
def sparse_netlab():
    return netlab("sparse-netlab", further=("bytes per coordinate", bytes_per_coordinate))


PROGRAMS = {"thinwire-gloo": "thinwire over gloo", "thinwire-mpi": "thinwire over mpi",
            "gloo-native": "Gloo's own ring", "openmpi-native": "Open MPI's own choice",
            "openmpi-native-ring": "Open MPI's own ring"}


@table
def dense_netlab():
    runs = by([line for line in lines("dense-netlab") if "seconds_median" in line], "program")
    rows = []
    for (program,), group in runs.items():
        median = statistics.median(run["seconds_median"] for run in group)
        workers, numel = group[0].get("workers", 4), group[0].get("numel", 25_000_000)
        bound = 2 * (workers - 1) / workers * 4 * numel * 8 / 1e9
        rows.append([PROGRAMS[program], f"{median:.3f} s", f"{min(run['seconds_min'] for run in group):.3f}",
                     f"{max(run['seconds_max'] for run in group):.3f}", f"{median / bound:.3f}",
                     f"{group[0]['bytes_per_worker'] / 1e6:.1f}"])
    return rows and markdown(["program", "median", "min", "max", "x ring bound", "MB per worker"], rows)


# --- On simulated workers, next to the efficiency that Shi et al. (2019) published for 4, 8, 16 and 32 machines.

PUBLISHED = {
    "resnet20": {"dense": (89.3, 76.6, 56.5, 31.3), "topk": (98.7, 81.8, 80.1, 75.6),
                 "gtopk": (99.5, 94.4, 87.8, 85.7)},
    "vgg16": {"dense": (7.9, 7.0, 3.0, 1.0), "topk": (8.4, 8.3, 7.4, 4.8),
              "gtopk": (9.9, 9.9, 9.6, 9.4)},
    "resnet50": {"dense": (73.8, 70.0, 43.8, 20.3), "topk": (71.4, 67.5, 65.2, 57.8),
                 "gtopk": (75.3, 75.1, 73.9, 74.0)},
    "alexnet": {"dense": (8.1, 7.0, 2.8, 0.7), "topk": (8.2, 8.0, 7.7, 5.3),
                "gtopk": (9.5, 9.5, 9.4, 9.1)},
    "lstm": {"dense": (3.2, 2.2, 1.0, 0.5), "topk": (5.1, 4.7, 3.8, 1.4),
             "gtopk": (4.5, 4.5, 3.9, 2.8)},
}
MODELS = {"resnet20": "ResNet-20", "vgg16": "VGG-16", "resnet50": "ResNet-50", "alexnet": "AlexNet", "lstm": "LSTM-PTB"}
SIZES = (4, 8, 16, 32)


@table
def scaling():
    runs = {line["run"]: line for line in lines("scaling")}
    rows = []
    for model, strategy in ((model, strategy) for model, of_model in PUBLISHED.items() for strategy in of_model):
        found = [runs.get(f"{model} {size} {label(strategy)}") for size in SIZES]
        if None in found:
            continue
        first = found[0]
        title = f"{MODELS[model]}, {first['numel'] / 1e6:.3g} M, {first['step_seconds']:.3g} s"
        rows.append([title if strategy == "dense" else "", strategy,
                     *[f"{100 * run['efficiency']:.1f} ({paper})"
                       for run, paper in zip(found, PUBLISHED[model][strategy])]])
    return rows and markdown(["model, parameters, step", "strategy", "P = 4", "8", "16", "32"], rows)


# --- On one core.


def candidates_over_k(line):
    """Returns how many entries the kernel read twice. Above a density of 3 % it counts all elements instead."""
    return "counting" if line["candidates"] == line["numel"] else f"{line['candidates'] / line['k']:.2f}"


@table
def select():
    rows = []
    for line in lines("select"):
        if "kernel" not in line:
            continue
        row = [line["density"], line["kernel"], f"{1e3 * line['seconds_median']:.1f} ms",
               f"{1e3 * line['add_seconds_median']:.1f} ms", f"{line['ratio_to_add']:.2f}"]
        if line["kernel"] in ("plain", "momentum"):  # ours; r += g moves 12 bytes per element
            moved = line["bytes_per_element"]
            rows.append([*row, moved, f"{line['ratio_to_add'] * 12 / moved:.2f}", candidates_over_k(line)])
        else:
            rows.append([*row, "", "", ""])
    return rows and markdown(["density", "kernel", "median", "r += g", "ratio", "B/float", "x memory bound",
                              "candidates / k"], rows)


@table
def quantize():
    rows = [[line["kernel"], line["bits"], f"{1e3 * line['seconds_median']:.1f} ms",
             f"{1e3 * line['add_seconds_median']:.1f} ms", f"{line['ratio_to_add']:.2f}"]
            for line in lines("quantize") if "kernel" in line]
    return rows and markdown(["kernel", "bits", "median", "r += g", "ratio"], rows)
