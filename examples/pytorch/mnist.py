#!/usr/bin/env python3
"""Trains LeNet on MNIST with plain DistributedDataParallel, or with a strategy of thinwire.

    torchrun --nproc_per_node 4 mnist.py                                    # plain PyTorch
    torchrun --nproc_per_node 4 mnist.py --strategy topk                    # thinwire
    torchrun --nproc_per_node 4 mnist.py --strategy topk --data MNIST_DIR   # the real data

The function synchronize() has all lines that thinwire needs. Without --data the program trains on
a small set that it makes itself. README.md, next to this file, explains the output.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any, Optional, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

MODEL_STRATEGIES = ("localsgd", "lasgd", "gossip")  # These exchange models, the others gradients.


def lenet() -> nn.Module:
    """Returns a LeNet with 431,080 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10),
    )  # fmt: skip


def read_idx(path: Path) -> torch.Tensor:
    """Returns the bytes of an IDX file. Its header has the number of dimensions in byte 3."""
    data = path.read_bytes()
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
    return torch.frombuffer(bytearray(data[4 + 4 * len(shape) :]), dtype=torch.uint8).view(shape)


def load_mnist(folder: Path, part: str) -> Tuple[torch.Tensor, torch.Tensor]:
    """Returns images and labels of "train" or "t10k", in the files of `tools/get-data mnist`."""
    images = read_idx(folder / f"{part}-images-idx3-ubyte")
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte")
    return (images.unsqueeze(1).float() / 255 - 0.1307) / 0.3081, labels.long()


def make_synthetic(count: int, seed: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """Returns ten smooth patterns, one per label, shifted and with noise."""
    coarse = torch.randn(10, 1, 7, 7, generator=torch.Generator().manual_seed(0))
    patterns = nn.functional.interpolate(coarse, size=(28, 28), mode="bilinear")
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=random)
    shifts = torch.randint(-3, 4, (count, 2), generator=random).tolist()
    images = [patterns[label].roll(shift, (1, 2)) for label, shift in zip(labels, shifts)]
    return torch.stack(images) + torch.randn(count, 1, 28, 28, generator=random), labels


def synchronize(
    model: nn.Module, optimizer: torch.optim.Optimizer, options: argparse.Namespace, steps: int
) -> Tuple[nn.Module, Optional[Any]]:
    """Returns the model to train, and the exchange of thinwire if there is one."""
    if not options.strategy:
        return DistributedDataParallel(model), None
    import thinwire.torch as thinwire

    run = {"steps": steps, "network": options.network}
    if options.strategy.partition(":")[0] in MODEL_STRATEGIES:
        return model, thinwire.average(model, optimizer, options.strategy, **run).wire
    model = DistributedDataParallel(model)
    return model, thinwire.attach(model, options.strategy, optimizer=optimizer, **run)


def test(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the accuracy over the whole test set, of which every rank tests its part."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model.eval()
    with torch.no_grad():
        batches = zip(images[rank::size].split(500), labels[rank::size].split(500))
        correct = sum((model(x).argmax(1) == y).sum() for x, y in batches)
    total = torch.as_tensor(correct, dtype=torch.int64)
    dist.all_reduce(total)
    return total.item() / len(labels)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    train_set: Tuple[torch.Tensor, torch.Tensor],
    options: argparse.Namespace,
    steps: int,
) -> float:
    """Trains for this number of steps. Returns the mean time of a step in seconds."""
    images, labels = train_set
    rank, size = dist.get_rank(), dist.get_world_size()
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps)))
    )
    steps_per_epoch = len(images) // (options.batch * size)
    began = time.monotonic()
    for step in range(steps):
        epoch, position = divmod(step, steps_per_epoch)
        if position == 0:  # The order is the same on all workers; each takes its own part.
            order = torch.Generator().manual_seed(1000 * options.seed + epoch)
            mine = torch.randperm(len(images), generator=order)[rank::size]
        batch = mine[position * options.batch : (position + 1) * options.batch]
        optimizer.zero_grad()
        loss = cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        schedule.step()
        if rank == 0 and position == steps_per_epoch - 1:
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)
    return (time.monotonic() - began) / steps


def report(
    model: nn.Module, wire: Optional[Any], name: str, accuracy: float, seconds: float, steps: int
) -> None:
    """Prints the last line, on rank 0, and ends the exchange of thinwire."""
    size = dist.get_world_size()
    # DistributedDataParallel does not count bytes; these are those of a ring all-reduce.
    sent = 4 * sum(p.numel() for p in model.parameters()) * 2 * (size - 1) / size
    if wire:
        sent = wire.stats()["bytes_sent"] / steps
        wire.close()
    if dist.get_rank() == 0:
        print(
            f"{name}: accuracy {100 * accuracy:.2f} %, "
            f"{1000 * seconds:.1f} ms per step, {sent:,.0f} bytes per worker and step, "
            f"{steps} steps, {size} workers"
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--strategy", metavar="SPEC", help="such as topk; default: plain DDP")
    parser.add_argument("--data", type=Path, metavar="DIR", help="made by tools/get-data mnist DIR")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="images per worker and step")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-steps", type=int, help="ends the run after this many steps")
    parser.add_argument("--network", help="imitated by thinwire, such as 100mbit,1ms")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    if options.data:
        train_set, test_set = load_mnist(options.data, "train"), load_mnist(options.data, "t10k")
    else:
        train_set, test_set = make_synthetic(6000, seed=1), make_synthetic(1000, seed=2)
    steps_per_epoch = len(train_set[0]) // (options.batch * dist.get_world_size())
    steps = options.max_steps or options.epochs * steps_per_epoch

    torch.manual_seed(options.seed)  # All workers begin with the same model.
    model = lenet()
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    trained, wire = synchronize(model, optimizer, options, steps)
    seconds = train(trained, optimizer, train_set, options, steps)
    if hasattr(wire, "finish"):
        wire.finish()  # Models become equal.
    accuracy = test(model, *test_set)
    report(model, wire, options.strategy or "ddp", accuracy, seconds, steps)
    if not torch.__version__.startswith("1."):  # There it may hang; in 2.x its lack may abort.
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
