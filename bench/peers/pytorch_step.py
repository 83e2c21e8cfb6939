#!/usr/bin/python3
"""One rank of a PyTorch program that trains linear layers: DDP with its own hooks, or thinwire.

    pytorch_step.py ddp:fp32 | ddp:fp16 | ddp:powersgd,rank=R | SPEC OF THINWIRE

A step is zero_grad, forward, backward with the exchange, and the optimizer's step. Of each step the
time of the slowest rank counts. Rank 0 prints a JSON line:

  seconds_*           a step. localsgd: a period, divided by its steps. lasgd and gossip, whose ranks
                      do not wait for each other: a time window, divided by the steps of each rank.
  seconds_computing   a step without exchange
  seconds_exchange    the exchange of gradients that exist already, so that nothing can be hidden
                      behind backward
  hidden_share        1 - (step - computing) / exchange: the share of the exchange that does not
                      make a step longer
  bytes_per_worker    sent through the network interface per step, headers included, by the rank
                      that sent most

Rank and group come from torchrun's variables (tools/netlab sets them).
"""
import argparse
import statistics
import sys
import time

import ranks
import torch
import torch.distributed as dist
from ddp_step import Given, add_hook, count, one_bucket, over_ranks
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH = 6, 2048  # 25,178,112 parameters
# Model strategies are measured when their traffic has become steady: after this number of models of received
# data. gossip sends 16 models in full precision first; a round of lasgd receives 1.5 models.
STEADY_AFTER = {"lasgd": 4.5, "gossip": 17.5}
PERIOD = 8  # of localsgd


class Model(torch.nn.Module):
    """Linear layers. With gradients given, the loss is 0 and backward returns them at once."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
        self.given = None

    def forward(self, inputs):
        if self.given is not None:
            return Given.apply(self.given, *self.parameters())
        return self.layers(inputs).square().mean()


class Training:
    """A model with its optimizer, before any exchange is set up."""

    def __init__(self, options):
        self.options = options
        torch.manual_seed(1)
        self.model = self.module = Model()
        self.numel = sum(p.numel() for p in self.model.parameters())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        random = torch.Generator().manual_seed(100 + dist.get_rank())
        self.inputs = torch.randn(options.batch, WIDTH, generator=random)
        self.wire = None

    def wrap(self, bucket_mb=25):
        # Gradients live in the buckets that are sent, which saves DDP two copies.
        self.model = DistributedDataParallel(
            self.module, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True
        )

    def step(self):
        self.optimizer.zero_grad()
        self.model(self.inputs).backward()
        self.optimizer.step()

    def exchange(self):
        self.optimizer.zero_grad()
        self.model(self.inputs).backward()

    def timed(self, action, times=1):
        """Returns the seconds of the slowest rank, per time."""
        dist.barrier()
        start = time.perf_counter()
        for _ in range(times):
            action()
        return over_ranks((time.perf_counter() - start) / times, dist.ReduceOp.MAX)

    def sent_bytes(self):
        with open(f"/sys/class/net/{self.options.interface}/statistics/tx_bytes") as counter:
            return int(counter.read())

    def replicas_identical(self):
        bits = sum(
            p.detach().view(torch.int32).sum(dtype=torch.int64).item()
            for p in self.module.parameters()
        )
        lowest = over_ranks(bits, dist.ReduceOp.MIN, torch.int64)
        return lowest == over_ranks(bits, dist.ReduceOp.MAX, torch.int64)


def summary(steps):
    return {
        "seconds_median": statistics.median(steps),
        "seconds_min": min(steps),
        "seconds_max": max(steps),
    }


def measure_gradients(training, program):
    """Measures a program that exchanges gradients, with a hook of DDP."""
    options, reps = training.options, training.options.reps
    if program.startswith("ddp:"):
        hook, _, rank = program[len("ddp:") :].partition(",rank=")
        training.wrap(one_bucket(training.numel) if hook == "powersgd" else 25)
        add_hook(training.model, hook, int(rank or 0))
    else:
        import thinwire.torch as thinwire

        training.wrap()
        training.wire = thinwire.attach(
            training.model, program, optimizer=training.optimizer, steps=options.steps
        )
    for _ in range(options.warmup):
        training.timed(training.step)
    before, began = training.sent_bytes(), training.wire and training.wire.stats()
    steps = [training.timed(training.step) for _ in range(reps)]
    result = summary(steps)
    result["bytes_per_worker"] = over_ranks(
        (training.sent_bytes() - before) // reps, dist.ReduceOp.MAX, torch.int64
    )
    if training.wire:
        result["detail"] = per_step(began, training.wire.stats(all_ranks=True), reps)
    result["replicas_identical"] = training.replicas_identical()

    with training.model.no_sync():
        computing = statistics.median([training.timed(training.step) for _ in range(reps)])
    # The exchange alone has the gradients of a real step. Copying them into the buckets of DDP takes
    # time, too, which is measured without exchange and subtracted.
    training.module.given = [p.grad.clone() for p in training.module.parameters()]
    exchanges = [training.timed(training.exchange) for _ in range(options.exchanges)]
    with training.model.no_sync():
        copying = statistics.median([training.timed(training.exchange) for _ in range(reps)])
    exchange = max(1e-9, statistics.median(exchanges) - copying)
    added = result["seconds_median"] - computing
    result["seconds_computing"] = computing
    result["seconds_exchange"] = exchange
    result["hidden_share"] = min(1.0, max(0.0, 1 - added / exchange))
    return result


def per_step(before, after, steps):
    """Returns thinwire's own statistics of some steps, per step, and the strategy's metrics."""
    names = ["bytes_sent", "codec_seconds", "wire_seconds", "blocked_seconds"]
    out = {name: (after[name] - before[name]) / steps for name in names if name in after}
    return {**out, **after["metrics"]}


def measure_models(training, program):
    """Measures a program that exchanges models, in the optimizer's step."""
    import thinwire.torch as thinwire

    computing = [training.timed(training.step) for _ in range(1 + training.options.reps)][1:]
    # Without `steps` the strategies have no synchronous start, which belongs to the begin of a run.
    training.wire = thinwire.average(training.module, training.optimizer, program).wire
    name = program.partition(":")[0]
    measure = measure_window if name in STEADY_AFTER else measure_periods
    result = measure(training, name)
    result["seconds_computing"] = statistics.median(computing)
    return result


def measure_periods(training, _):
    """All ranks take the same steps and wait for each other once in a period."""
    reps = max(1, training.options.reps // 2)
    training.timed(training.step, PERIOD)
    before, began = training.sent_bytes(), training.wire.stats()
    result = summary([training.timed(training.step, PERIOD) for _ in range(reps)])
    result["bytes_per_worker"] = over_ranks(
        (training.sent_bytes() - before) // (reps * PERIOD), dist.ReduceOp.MAX, torch.int64
    )
    result["detail"] = per_step(began, training.wire.stats(all_ranks=True), reps * PERIOD)
    return result


def measure_window(training, name):
    """Every rank takes steps at its own speed."""
    # No rank may stop taking steps before all have received enough: messages are merged in steps.
    wanted = STEADY_AFTER[name] * 4 * training.numel
    barrier = None
    while barrier is None or not barrier.is_completed():
        training.step()
        time.sleep(training.options.warmup_pause)
        if barrier is None and training.wire.stats()["bytes_received"] >= wanted:
            barrier = dist.all_reduce(torch.zeros(1), async_op=True)
    for _ in range(3):
        training.step()
    before, began = training.sent_bytes(), training.wire.stats()
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < training.options.window:
        training.step()
        steps += 1
    seconds = (time.perf_counter() - start) / steps
    sent = (training.sent_bytes() - before) // steps
    after = training.wire.stats(all_ranks=True)
    return {
        "seconds_median": over_ranks(seconds, dist.ReduceOp.MAX),
        "seconds_min": over_ranks(seconds, dist.ReduceOp.MIN),
        "bytes_per_worker": over_ranks(sent, dist.ReduceOp.MAX, torch.int64),
        "steps": steps,
        "detail": per_step(began, after, steps),
    }


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--batch", type=count, default=8)
    parser.add_argument("--reps", type=count, default=5)
    parser.add_argument("--exchanges", type=count, default=3, help="without computing")
    # DDP arranges its buckets in the first step, and PowerSGD starts after the second.
    parser.add_argument("--warmup", type=count, default=3)
    parser.add_argument("--steps", type=int, default=10000, help="of the whole run, for density=auto")
    parser.add_argument("--window", type=float, default=20, metavar="SECONDS",
                        help="of lasgd and gossip")
    parser.add_argument("--warmup-pause", type=float, default=0, metavar="SECONDS",
                        help="between two steps before the window")
    parser.add_argument("--interface", default="eth0")
    return parser.parse_args(words)


def main():
    options = parse(sys.argv[1:])
    ranks.join(options.interface)
    training = Training(options)
    exchanges_models = options.program.partition(":")[0] in ("localsgd", "lasgd", "gossip")
    measure = measure_models if exchanges_models else measure_gradients
    result = measure(training, options.program)
    result = {
        "strategy": options.program,
        "numel": training.numel,
        "workers": dist.get_world_size(),
        "reps": options.reps,
        **result,
        "torch": torch.__version__,
    }
    ranks.report(result)
    if training.wire:
        training.wire.close()
    ranks.leave()


if __name__ == "__main__":
    main()
