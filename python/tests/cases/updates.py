"""Cases: what a step applies, compared with a reference: weight decay, momentum, skipped steps."""

from __future__ import annotations

from typing import Callable, List, Optional

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import thinwire.torch as tw
from cases.common import (
    STEPS,
    assert_raises,
    assert_replicas_identical,
    flat,
    loss_of,
    make_model,
    sgd,
    train,
)

ALL_ENTRIES = "topk:density=1,values=fp32,warmup=none"  # exact: nothing stays in the residual


def case_update_is_that_of_the_engine(rank: int, size: int) -> None:
    """The gradients after backward, bit for bit: momentum and decay as thinwire's own trainer has."""
    momentum, decay = torch.tensor(0.9), torch.tensor(0.01)
    for nesterov in (False, True):
        module = make_model()
        parameters = list(module.parameters())
        model = DDP(module, bucket_cap_mb=0.01)
        optimizer = sgd(model, weight_decay=decay.item(), nesterov=nesterov)
        velocities = [torch.zeros_like(p) for p in parameters]
        with tw.attach(model, ALL_ENTRIES, optimizer=optimizer, steps=STEPS, buckets=2):
            for step in range(STEPS):
                local = torch.autograd.grad(loss_of(module, rank, step), parameters)
                optimizer.zero_grad()
                loss_of(model, rank, step).backward()
                for parameter, own, velocity in zip(parameters, local, velocities):
                    gradient = own + parameter.detach() * decay
                    if nesterov:
                        velocity.add_(gradient).mul_(momentum)
                        direction = velocity + gradient
                    else:
                        direction = velocity.mul_(momentum).add_(gradient)
                    everyone = [torch.empty_like(direction) for _ in range(size)]
                    dist.all_gather(everyone, direction.clone())
                    assert torch.equal(parameter.grad, sum(everyone) / size), (step, nesterov)
                optimizer.step()
        assert_replicas_identical(model)


class Branches(nn.Module):
    """Has a layer that one rank uses, and one that no rank uses."""

    def __init__(self, uses_branch: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Linear(20, 30), nn.Linear(30, 5)
        self.branch, self.spare = nn.Linear(30, 30), nn.Linear(30, 30)
        self.uses_branch = uses_branch

    def forward(self, inputs):
        hidden = torch.tanh(self.first(inputs))
        return self.last(torch.tanh(self.branch(hidden)) if self.uses_branch else hidden)


def _branches(rank: int, ddp: Optional[dict], spec: Optional[str], after: Callable) -> Branches:
    """Returns a module after some steps; ddp are options, spec None is without thinwire."""
    module = Branches(uses_branch=rank == 0 or (ddp or {}).get("static_graph", False))
    model = module if ddp is None else DDP(module, **ddp)
    optimizer = sgd(module, weight_decay=0.1, lr=0.01)
    wire = tw.attach(model, spec, optimizer=optimizer, steps=STEPS) if spec else None
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, rank, step).backward()
        after(module)
        assert all(p.grad is None for p in module.spare.parameters()), "nobody used it"
        optimizer.step()
    if wire is not None:
        wire.close()
    assert_replicas_identical(module)
    return module


def case_weight_decay_where_ranks_differ(rank: int, size: int) -> None:
    def average_gradients(module: Branches) -> None:
        for parameter in module.parameters():
            used = torch.tensor([float(parameter.grad is not None)])
            dist.all_reduce(used)
            if used > 0:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad)
                parameter.grad /= size

    def nothing(module: Branches) -> None:
        pass

    for ddp in ({"find_unused_parameters": True}, {"static_graph": True}, None):
        manual = average_gradients if ddp is None else nothing
        expected = _branches(rank, ddp, None, manual)
        reduce = tw.reduce_gradients if ddp is None else nothing
        found = _branches(rank, ddp, ALL_ENTRIES, reduce)
        torch.testing.assert_close(flat(found), flat(expected), rtol=1e-4, atol=1e-6)
        torch.manual_seed(1)
        untouched = Branches(True)
        assert torch.equal(found.spare.weight, untouched.spare.weight), "decay without a gradient"


def case_skipped_steps_leave_no_trace(rank: int, size: int) -> None:
    """A run with a step that is not finite on one rank equals the run without that step."""

    def run(kind: str, adam: bool, bad: bool) -> torch.Tensor:
        module = make_model()
        options = {
            "views": {"gradient_as_bucket_view": True},
            "unused": {"find_unused_parameters": True},
            "static": {"static_graph": True},
        }.get(kind, {})
        bad_step = 0 if kind == "static" else 3  # the first step of a static graph is special
        model = module if kind == "plain" else DDP(module, **options)
        parameters = module.parameters()
        optimizer = (
            torch.optim.Adam(parameters, lr=0.01, weight_decay=0.1)
            if adam
            else torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.1)
        )
        with tw.attach(model, "dense", optimizer=optimizer, steps=STEPS) as wire:
            for step in range(STEPS):
                factor = float("inf") if bad and step == bad_step and rank == 0 else 1.0
                if not bad and step == bad_step:
                    continue
                optimizer.zero_grad()
                (loss_of(model, rank, step) * factor).backward()
                if kind == "plain":
                    assert tw.reduce_gradients(model) == (step != bad_step)
                optimizer.step()
            assert wire.stats()["skipped_steps"] == int(bad)
        assert_replicas_identical(model)
        return flat(model)

    for kind in ("ddp", "views", "unused", "static", "plain"):
        for adam in (False, True):
            assert torch.equal(run(kind, adam, True), run(kind, adam, False)), (kind, adam)


def case_float64_parameters_are_not_rounded(rank: int, size: int) -> None:
    for is_ddp in (True, False):
        model = make_model(seed=1 + rank).double()
        trained = DDP(model) if is_ddp else model
        expected = make_model(seed=1).double()
        with torch.no_grad():
            for parameter, other in zip(model.parameters(), expected.parameters()):
                other.copy_(other * (1 + 1e-10))
                parameter.copy_(parameter * (1 + 1e-10))
        if is_ddp:
            model.load_state_dict(expected.state_dict())
        optimizer = sgd(model)
        with tw.attach(trained, "dense", optimizer=optimizer, steps=STEPS) as wire:
            # Rank 0's parameters reach all ranks with all of their bits.
            for parameter, other in zip(model.parameters(), expected.parameters()):
                assert torch.equal(parameter, other)
            state = wire.state_dict()
            wire.load_state_dict(state)
            for parameter, other in zip(model.parameters(), expected.parameters()):
                assert torch.equal(parameter, other)
    assert_raises(
        tw.ConfigError, "float64", lambda: tw.average(model, sgd(model), "localsgd", steps=STEPS)
    )


def one_rank_is_plain_sgd(rank: int, size: int) -> None:
    for dtype in (torch.float32, torch.float64):
        results: List[List[torch.Tensor]] = []
        for spec in (None, "topk", "qsgd", "plain gtopk", "localsgd", "lasgd"):
            model = make_model().to(dtype)
            optimizer: torch.optim.Optimizer = sgd(model, weight_decay=0.01)
            wire, after, trained = None, None, model
            if spec in ("topk", "qsgd"):
                trained = DDP(model)
                wire = tw.attach(trained, spec, optimizer=optimizer, steps=STEPS)
            elif spec == "plain gtopk":
                wire = tw.attach(model, "gtopk", optimizer=optimizer, steps=STEPS)
                after = lambda: tw.reduce_gradients(model)  # noqa: E731
            elif spec is not None:
                optimizer = tw.average(
                    model, optimizer, spec, samples=16 * STEPS, samples_per_step=16
                )
                wire = optimizer.wire
            for step in range(STEPS):
                assert spec not in ("localsgd", "lasgd") or not wire.done
                optimizer.zero_grad()
                loss_of(trained, rank, step, dtype).backward()
                if after is not None:
                    after()
                optimizer.step()
            if wire is not None:
                assert wire.stats()["steps"] == STEPS
                wire.load_state_dict(wire.state_dict())
                if spec in ("localsgd", "lasgd"):
                    assert wire.done
                    wire.finish()
                wire.close()
            results.append([p.detach().clone() for p in model.parameters()])
        for other in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], other))
    # A step that is not finite is skipped here, too.
    model = make_model()
    optimizer = sgd(model)
    with tw.attach(model, "topk", optimizer=optimizer, steps=STEPS):
        before = flat(model)
        (loss_of(model, rank, 0) * float("nan")).backward()
        assert not tw.reduce_gradients(model)
        optimizer.step()
        assert torch.equal(before, flat(model))
        optimizer.zero_grad()
        train(model, optimizer, rank, after=lambda: tw.reduce_gradients(model))


ALONE = [one_rank_is_plain_sgd]
