#!/usr/bin/python3
"""One rank of PyTorch's DistributedDataParallel, exchanging the gradients that `thinwire bench
allreduce` exchanges: layers of 1024 x 1024, and the remaining entries as a bias.

A step is forward, backward and the exchange, as DDP interleaves them; forward and backward compute
next to nothing. The slowest rank of each step counts, and nothing is subtracted. The time of the
same step without any exchange is printed as well. Bytes are those of the network interface, headers
included, of the rank that sent most. Rank 0 prints a JSON line.

There is no bf16: DDP's hook for it refuses everything but NCCL. Rank and group come from torchrun's
variables (tools/netlab sets them). Needs Debian's python3-torch (tools/deps).
"""
import argparse
import statistics
import sys
import time

import ranks
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

SIDE = 1024
UNITS = {"k": 10**3, "M": 10**6, "G": 10**9}


def count(text):
    """25000000, or 25M."""
    unit = UNITS.get(text[-1:], 1)
    value = int(text if unit == 1 else text[:-1]) * unit
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a count such as 25M")
    return value


class Given(torch.autograd.Function):
    """A loss of 0 whose gradients were computed beforehand."""

    @staticmethod
    def forward(ctx, gradients, *params):
        ctx.gradients = gradients
        return params[0].new_zeros(())

    @staticmethod
    def backward(ctx, _):
        return (None, *ctx.gradients)


class Layers(torch.nn.Module):
    def __init__(self, numel, seed):
        super().__init__()
        layers, rest = divmod(numel, SIDE * SIDE)
        rows, bias = divmod(rest, SIDE)
        shapes = [(SIDE, SIDE)] * layers + [(rows, SIDE)] * (rows > 0) + [(bias,)] * (bias > 0)
        self.params = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(s)) for s in shapes)
        random = torch.Generator().manual_seed(seed)
        self.gradients = [torch.randn(s, generator=random) for s in shapes]

    def forward(self):
        return Given.apply(self.gradients, *self.params)


def one_bucket(numel):
    """The size, in MB, of a bucket for all. PowerSGD's second message of a bucket is started when
    its first has arrived, in any order among the buckets; over gloo, ranks with several buckets
    take one's message for another's and abort."""
    dist._DEFAULT_FIRST_BUCKET_BYTES = 4 * numel  # of the first bucket, which has its own size
    return 4 * numel // 2**20 + 1


def add_hook(ddp, hook, matrix_rank):
    if hook == "fp16":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=matrix_rank, start_powerSGD_iter=2
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def over_ranks(value, operation, dtype=torch.float64):
    tensor = torch.tensor(value, dtype=dtype)
    dist.all_reduce(tensor, operation)
    return tensor.item()


class Measurement:
    def __init__(self, options):
        self.options = options
        model = Layers(options.numel, seed=1 + dist.get_rank())
        # Gradients live in the buckets that are sent, which spares DDP two copies.
        bucket_mb = one_bucket(options.numel) if options.hook == "powersgd" else 25
        self.ddp = DistributedDataParallel(
            model, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True
        )
        add_hook(self.ddp, options.hook, options.matrix_rank)

    def step(self):
        """Seconds of the slowest rank."""
        dist.barrier()
        start = time.perf_counter()
        self.ddp().backward()
        elapsed = time.perf_counter() - start
        self.ddp.zero_grad()
        return over_ranks(elapsed, dist.ReduceOp.MAX)

    def sent_bytes(self):
        dist.barrier()
        with open(f"/sys/class/net/{self.options.interface}/statistics/tx_bytes") as counter:
            return int(counter.read())

    def identical(self):
        """Whether all ranks get the same gradients, by a sum of their bits."""
        self.ddp().backward()
        bits = sum(
            p.grad.view(torch.int32).sum(dtype=torch.int64).item() for p in self.ddp.parameters()
        )
        self.ddp.zero_grad()
        lowest = over_ranks(bits, dist.ReduceOp.MIN, torch.int64)
        return lowest == over_ranks(bits, dist.ReduceOp.MAX, torch.int64)

    def run(self):
        reps = self.options.reps
        for _ in range(self.options.warmup):
            self.step()
        before = self.sent_bytes()
        seconds = [self.step() for _ in range(reps)]
        sent = over_ranks((self.sent_bytes() - before) // reps, dist.ReduceOp.MAX, torch.int64)
        identical = self.identical()
        with self.ddp.no_sync():
            alone = [self.step() for _ in range(reps)]
        name = "ddp:" + self.options.hook
        if self.options.hook == "powersgd":
            name += f",rank={self.options.matrix_rank}"
        return {
            "strategy": name,
            "numel": self.options.numel,
            "workers": dist.get_world_size(),
            "transport": "gloo",
            "seconds_median": statistics.median(seconds),
            "seconds_min": min(seconds),
            "seconds_max": max(seconds),
            "seconds_without_exchange": statistics.median(alone),
            "bytes_per_worker": sent,
            "replicas_identical": identical,
            "reps": reps,
            "torch": torch.__version__,
        }


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--hook", choices=["fp32", "fp16", "powersgd"], default="fp32")
    parser.add_argument("--matrix-rank", type=int, default=1, metavar="R", help="of powersgd")
    parser.add_argument("--numel", type=count, default="25M")
    parser.add_argument("--reps", type=count, default=9)
    # DDP arranges its buckets in the first step, and PowerSGD starts after the second.
    parser.add_argument("--warmup", type=count, default=4)
    parser.add_argument("--interface", default="eth0")
    return parser.parse_args(words)


def main():
    options = parse(sys.argv[1:])
    ranks.join(options.interface)
    ranks.report(Measurement(options).run())
    ranks.leave()


if __name__ == "__main__":
    main()
