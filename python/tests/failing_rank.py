"""One rank of a program that ends in an unusual way; the first argument says in which."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Tuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

import thinwire.torch as tw
from cases.common import end_process_group, loss_of, make_model, sgd

MODE = sys.argv[1]
SPEC = sys.argv[2] if len(sys.argv) > 2 else "topk:density=0.1"
STEPS = 1_000_000
TIMEOUT = 40.0  # of the exchange, in seconds; test_endings.py has the same


class Numbers(torch.utils.data.IterableDataset):
    """Examples without an end."""

    def __iter__(self):
        while True:
            yield torch.zeros(1)


def endless(rank: int) -> None:
    """Trains until something ends it."""
    model = DDP(make_model(), find_unused_parameters=MODE == "raise-unused")
    optimizer = sgd(model)
    network = "1gbit,0.1ms" if MODE == "network" else None
    wire = tw.attach(
        model, SPEC, optimizer=optimizer, steps=STEPS, timeout=TIMEOUT, network=network
    )
    loader = iter(torch.utils.data.DataLoader(Numbers(), num_workers=2)) if MODE == "workers" else None
    for step in range(STEPS):
        if loader is not None:
            next(loader)
        optimizer.zero_grad()
        loss_of(model, rank, step).backward()
        optimizer.step()
        if step == 20:
            print("training")
        if MODE.startswith("raise") and rank == 1 and step == 30:
            raise ValueError("a mistake of the program")
        if MODE == "exit" and step == 30:
            return  # without close()
        if MODE == "early" and rank == 1 and step == 30:
            sys.exit(3)  # an end that no other rank expects
    wire.close()


def endless_average(rank: int) -> None:
    model = make_model()
    # A run of unknown length has no dense steps at its beginning.
    steps = 0 if MODE == "unfinished" else STEPS
    optimizer = tw.average(model, sgd(model), SPEC, steps=steps, timeout=TIMEOUT)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, rank, step).backward()
        optimizer.step()
        if step == 20:
            print("training")
        if MODE == "unfinished" and step == 30:
            return  # without finish()


def several(rank: int) -> None:
    """Ends without close() of several exchanges; their order in memory differs between ranks."""
    unrelated = [object() for _ in range(1000 * rank)]
    wires = []
    for seed in range(6):
        model = make_model(seed)
        wires.append(tw.attach(model, "topk", steps=5, timeout=TIMEOUT))
    print("training", len(wires), len(unrelated))


def without_process_group(rank: int) -> None:
    model = make_model(seed=1 + rank)
    optimizer = sgd(model)
    for spec in ("topk:density=0.1", "qsgd"):  # two groups, one after the other
        with tw.attach(model, spec, optimizer=optimizer, steps=5):
            for step in range(5):
                optimizer.zero_grad()
                loss_of(model, rank, step).backward()
                tw.reduce_gradients(model)
                optimizer.step()
    print("weight", model[0].weight.double().sum().item().hex())


def ends_in_a_block(rank: int) -> None:
    """Rank 1 calls sys.exit() in a with block, with the number that is the second argument."""
    model = DDP(make_model())
    optimizer = sgd(model)
    code = int(SPEC)
    with tw.attach(model, "topk", optimizer=optimizer, steps=STEPS, timeout=TIMEOUT):
        for step in range(20):
            optimizer.zero_grad()
            loss_of(model, rank, step).backward()
            optimizer.step()
            if step == 10 and rank == 1:
                sys.exit(code)
            if step == 10 and code == 0:
                time.sleep(1)
                break


def late(rank: int) -> None:
    """Rank 1 never calls close()."""
    model = make_model()
    wire = tw.attach(model, "dense", timeout=3)
    loss_of(model, rank, 0).backward()
    tw.reduce_gradients(model)
    if rank == 1:
        print("late")
        time.sleep(1000)
    wire.close()


def interrupted_stats(rank: int) -> None:
    """Rank 0 is interrupted while it waits for the others in stats()."""
    model = make_model()
    wire = tw.attach(model, "dense", timeout=TIMEOUT)
    loss_of(model, rank, 0).backward()
    tw.reduce_gradients(model)
    print("training")
    if rank == 0:
        try:
            wire.stats(all_ranks=True)
        except KeyboardInterrupt:
            assert not wire._group.is_open
            print("interrupted")
            raise
    time.sleep(10)  # the interrupt of rank 0 comes earlier
    wire.stats(all_ranks=True)


def spawned_rank(rank: int, port: str) -> None:
    os.environ.update({"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": port})
    dist.init_process_group("gloo")
    model = DDP(make_model())
    tw.attach(model, "topk", steps=STEPS, timeout=TIMEOUT)
    for step in range(STEPS):
        if rank == 1 and step == 10:
            raise ValueError("a mistake of the program")
        # The parent ends this process by SIGTERM as soon as it has seen the end of rank 1.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            loss_of(model, rank, step).backward()
        except tw.LostError as error:
            print(f"rank {rank} lost: {error}", flush=True)
            raise


def spawn() -> None:
    """Starts ranks as torch.multiprocessing does."""
    torch.multiprocessing.spawn(spawned_rank, args=(os.environ["MASTER_PORT"],), nprocs=2)


def absent(rank: int) -> None:
    """Rank 1 never calls attach()."""
    if rank == 0:
        tw.attach(DDP(make_model()), SPEC, join_timeout=3)
    else:
        DDP(make_model())
        print("absent")
        time.sleep(1000)


def usage() -> Tuple[int, int, int]:
    """Returns the memory of this process in KiB, and its numbers of descriptors and threads."""
    with open("/proc/self/status") as status:
        memory = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return memory, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def leaks(rank: int) -> None:
    """Prints by how much the process has grown in the second half of a run."""
    steps = int(sys.argv[3])
    model = make_model()
    if SPEC in ("localsgd", "lasgd", "gossip"):
        optimizer = tw.average(model, sgd(model), SPEC, steps=steps)
        wire = optimizer.wire
    else:
        model = DDP(model)
        optimizer = sgd(model)
        wire = tw.attach(model, SPEC, optimizer=optimizer, steps=steps)
    usages = []
    for step in range(steps):
        if step in (steps // 10, steps // 2):
            usages.append(usage())
        optimizer.zero_grad()
        loss_of(model, rank, step % 50).backward()
        optimizer.step()
    usages.append(usage())
    grown = [[b - a for a, b in zip(*pair)] for pair in zip(usages, usages[1:])]
    print("grown", *grown[0], *grown[1])
    wire.close()


def main() -> None:
    torch.set_num_threads(1)
    if MODE == "spawn":
        return spawn()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    if MODE != "variables":
        dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    modes = {
        "average": endless_average,
        "unfinished": endless_average,
        "several": several,
        "variables": without_process_group,
        "leaks": leaks,
        "absent": absent,
        "block": ends_in_a_block,
        "late": late,
        "stats": interrupted_stats,
    }
    modes.get(MODE, endless)(rank)
    if dist.is_initialized():
        end_process_group()


if __name__ == "__main__":
    main()
