#!/usr/bin/python3
"""One rank of a PyTorch program that trains LeNet on MNIST, or ResNet-20 on CIFAR-10.

    pytorch_accuracy.py --strategy ddp:fp32 | ddp:fp16 | ddp:powersgd,rank=R | SPEC OF THINWIRE

The model, the data and the order of examples are those of examples/pytorch. Rank 0 prints a JSON
line: accuracy over the whole test set, seconds per step, bytes that thinwire sent. Rank and group
come from torchrun's variables.
"""
import argparse
import sys
import time
from pathlib import Path

import ranks
import torch
import torch.distributed as dist
from ddp_step import add_hook, one_bucket
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import thinwire.torch as thinwire

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "pytorch"))
import cifar10  # noqa: E402
import mnist  # noqa: E402


def load(options):
    """Returns the model, the training set, the test set and the function that tests."""
    if options.model == "lenet":
        train, test = (mnist.load_mnist(options.data, part) for part in ("train", "t10k"))
        return mnist.lenet(), train, test, mnist.test
    train = cifar10.load_cifar10(options.data, [f"data_batch_{i}" for i in range(1, 6)])
    return cifar10.resnet20(), train, cifar10.load_cifar10(options.data, ["test_batch"]), cifar10.test


def synchronize(model, optimizer, options, steps):
    """Returns the model to train, and the exchange of thinwire if there is one."""
    program = options.strategy
    if program.startswith("ddp:"):
        hook, _, rank = program[len("ddp:") :].partition(",rank=")
        numel = sum(p.numel() for p in model.parameters())
        model = DistributedDataParallel(model, bucket_cap_mb=one_bucket(numel))
        add_hook(model, hook, int(rank or 0))
        return model, None
    if program.partition(":")[0] in mnist.MODEL_STRATEGIES:
        return model, thinwire.average(model, optimizer, program, steps=steps).wire
    model = DistributedDataParallel(model)
    return model, thinwire.attach(
        model, program, optimizer=optimizer, steps=steps, buckets=options.buckets
    )


def train(options):
    torch.manual_seed(options.seed)
    model, (images, labels), test_set, test = load(options)
    size, rank = dist.get_world_size(), dist.get_rank()
    steps_per_epoch = len(images) // (options.batch * size)
    steps = options.epochs * steps_per_epoch
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    trained, wire = synchronize(model, optimizer, options, steps)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    began = time.perf_counter()
    for step in range(steps):
        epoch, position = divmod(step, steps_per_epoch)
        if position == 0:
            order = torch.Generator().manual_seed(1000 * options.seed + epoch)
            mine = torch.randperm(len(images), generator=order)[rank::size]
        batch = mine[position * options.batch : (position + 1) * options.batch]
        optimizer.zero_grad()
        cross_entropy(trained(images[batch]), labels[batch]).backward()
        optimizer.step()
        schedule.step()
    result = {"steps": steps, "seconds_per_step": (time.perf_counter() - began) / steps}
    if hasattr(wire, "finish"):
        wire.finish()
    if wire:
        result["bytes_per_worker_step"] = wire.stats()["bytes_sent"] / steps
    result["accuracy"] = test(model, *test_set)
    if wire:
        wire.close()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--strategy", required=True)
    parser.add_argument("--model", choices=["lenet", "resnet20"], default="lenet")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--buckets", type=int)
    parser.add_argument("--json", action="store_true", help="always; every measurement has this flag")
    options = parser.parse_args()
    ranks.join()
    result = train(options)
    named = {
        "strategy": options.strategy,
        "model": options.model,
        "workers": dist.get_world_size(),
        "torch": torch.__version__,
    }
    ranks.report({**named, **result})
    ranks.leave()


if __name__ == "__main__":
    main()
