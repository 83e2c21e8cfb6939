#!/usr/bin/env python3
"""Trains ResNet-20 on CIFAR-10 with plain DistributedDataParallel, or with a strategy of thinwire.

    tools/get-data cifar10 DIR                                               # once
    torchrun --nproc_per_node 4 cifar10.py --data DIR                        # plain PyTorch
    torchrun --nproc_per_node 4 cifar10.py --data DIR --strategy topk        # thinwire

The function synchronize() has all lines that thinwire needs. README.md, next to this file, explains
the output.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, pad, relu
from torch.nn.parallel import DistributedDataParallel

MODEL_STRATEGIES = ("localsgd", "lasgd", "gossip")  # These exchange models, the others gradients.
RECORD_BYTES = 1 + 3 * 32 * 32  # A label, then the planes of red, green and blue.


class Block(nn.Module):
    """Two convolutions and a shortcut without parameters (He et al. 2016, option A)."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride, self.added = after // before, after - before
        self.conv1 = nn.Conv2d(before, after, 3, self.stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))
        return relu(self.norm2(self.conv2(relu(self.norm1(self.conv1(x))))) + shortcut)


def resnet20() -> nn.Module:
    """Returns a ResNet-20 with 269,722 parameters."""
    first = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [Block(before, after) for before, after in zip(widths, widths[1:])]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def load_cifar10(folder: Path, names: List[str]) -> Tuple[torch.Tensor, torch.Tensor]:
    """Returns images and labels of the binary batches that `tools/get-data cifar10` makes."""
    inner = folder / "cifar-10-batches-bin"
    folder = inner if inner.is_dir() else folder
    data = bytearray().join((folder / f"{name}.bin").read_bytes() for name in names)
    records = torch.frombuffer(data, dtype=torch.uint8).view(-1, RECORD_BYTES)
    images = records[:, 1:].reshape(-1, 3, 32, 32).float() / 255
    mean, deviation = torch.tensor([0.491, 0.482, 0.447]), torch.tensor([0.247, 0.243, 0.262])
    return (images - mean.view(3, 1, 1)) / deviation.view(3, 1, 1), records[:, 0].long()


def augment(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Returns each image shifted by up to 4 pixels, half of them mirrored."""
    padded = pad(images, (4, 4, 4, 4))
    out = torch.empty_like(images)
    choices = torch.randint(0, 162, (len(images),), generator=random).tolist()  # 9 * 9 * 2
    for index, choice in enumerate(choices):
        top, left, mirrored = choice % 9, choice // 9 % 9, choice // 81
        image = padded[index, :, top : top + 32, left : left + 32]
        out[index] = image.flip(2) if mirrored else image
    return out


def synchronize(
    model: nn.Module, optimizer: torch.optim.Optimizer, options: argparse.Namespace, steps: int
) -> Tuple[nn.Module, Optional[Any]]:
    """Returns the model to train, and the exchange of thinwire if there is one."""
    if not options.strategy:
        return DistributedDataParallel(model), None
    import thinwire.torch as thinwire

    run = {"steps": steps, "network": options.network, "warmup_steps": options.warmup_steps}
    if options.strategy.partition(":")[0] in MODEL_STRATEGIES:
        return model, thinwire.average(model, optimizer, options.strategy, **run).wire
    model = DistributedDataParallel(model)
    return model, thinwire.attach(model, options.strategy, optimizer=optimizer, **run)


def test(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the accuracy over the whole test set, of which every rank tests its part."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for buffer in model.buffers():  # The statistics of batch normalization differ between ranks.
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= size
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

    def rate(step: int) -> float:
        """Returns the share of the learning rate: linear warm-up, then half a cosine."""
        rising = (step + 1) / (options.warmup_steps + 1)
        return min(rising, 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps))))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    random = torch.Generator().manual_seed(options.seed + 100 * rank)
    steps_per_epoch = len(images) // (options.batch * size)
    began = time.monotonic()
    for step in range(steps):
        epoch, position = divmod(step, steps_per_epoch)
        if position == 0:  # The order is the same on all workers; each takes its own part.
            order = torch.Generator().manual_seed(1000 * options.seed + epoch)
            mine = torch.randperm(len(images), generator=order)[rank::size]
        batch = mine[position * options.batch : (position + 1) * options.batch]
        optimizer.zero_grad()
        loss = cross_entropy(model(augment(images[batch], random)), labels[batch])
        loss.backward()
        optimizer.step()
        schedule.step()
        if rank == 0 and (position == steps_per_epoch - 1 or step % 100 == 99):
            print(f"epoch {epoch + 1}, step {step + 1}: loss {loss.item():.4f}", flush=True)
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
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="see above")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32, help="images per worker and step")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-steps", type=int, help="ends the run after this many steps")
    parser.add_argument("--network", help="imitated by thinwire, such as 100mbit,1ms")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    train_set = load_cifar10(options.data, [f"data_batch_{i}" for i in range(1, 6)])
    steps_per_epoch = len(train_set[0]) // (options.batch * dist.get_world_size())
    steps = options.max_steps or options.epochs * steps_per_epoch
    options.warmup_steps = min(steps_per_epoch, steps) // 2  # In these the learning rate rises.

    torch.manual_seed(options.seed)  # All workers begin with the same model.
    model = resnet20()
    optimizer = torch.optim.SGD(model.parameters(), options.lr, momentum=0.9, weight_decay=1e-4)
    trained, wire = synchronize(model, optimizer, options, steps)
    seconds = train(trained, optimizer, train_set, options, steps)
    if hasattr(wire, "finish"):
        wire.finish()  # Models become equal.
    accuracy = test(model, *load_cifar10(options.data, ["test_batch"]))
    report(model, wire, options.strategy or "ddp", accuracy, seconds, steps)
    if not torch.__version__.startswith("1."):  # There it may hang; in 2.x its lack may abort.
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
