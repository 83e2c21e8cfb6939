"""Cases: models that are wrapped, partly frozen, or have a communication hook."""

from __future__ import annotations

import io
import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP

import thinwire.torch as tw
from cases.common import (
    STEPS,
    Skip,
    assert_raises,
    assert_replicas_identical,
    flat,
    loss_of,
    make_model,
    sgd,
    train,
)


class OptimizedModule(nn.Module):
    """Wraps a model as torch.compile() does, which torch 1.13 does not have."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._orig_mod = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self._orig_mod(inputs)


class FullyShardedDataParallel(nn.Sequential):
    """Has the name of the class of torch, which needs a GPU."""


def _compiled(model: nn.Module) -> nn.Module:
    has_compile = hasattr(torch, "compile")
    return torch.compile(model, backend="eager") if has_compile else OptimizedModule(model)


def case_compiled_models_are_exchanged(rank: int, size: int) -> None:
    for wrap in (OptimizedModule, _compiled):
        results = []
        for is_wrapped in (False, True):
            inner = DDP(make_model())
            model = wrap(inner) if is_wrapped else inner
            optimizer = sgd(model)
            with tw.attach(model, "topk:density=0.1", optimizer=optimizer, steps=STEPS) as wire:
                train(model, optimizer, rank)
                assert wire.stats()["steps"] == STEPS
            assert_replicas_identical(model)
            results.append(flat(model))
        assert torch.equal(results[0], results[1])
    model = DDP(_compiled(make_model()))  # in the other order
    optimizer = sgd(model)
    with tw.attach(model, "topk:density=0.1", optimizer=optimizer, steps=STEPS):
        train(model, optimizer, rank)
    assert torch.equal(results[0], flat(model))
    model = _compiled(make_model(seed=1 + rank))
    optimizer = sgd(model)
    with tw.attach(model, "topk:density=0.1", optimizer=optimizer, steps=STEPS):
        train(model, optimizer, rank, after=lambda: tw.reduce_gradients(model))
    assert_replicas_identical(model)
    tw.average(model, optimizer, "localsgd", steps=STEPS)
    train(model, optimizer, rank)
    optimizer.wire.finish()
    optimizer.wire.close()
    assert_replicas_identical(model)


def case_wrapped_models_are_refused(rank: int, size: int) -> None:
    inner = DDP(make_model())
    for model in (nn.Sequential(inner), OptimizedModule(nn.ModuleDict({"a": inner}))):
        optimizer = sgd(model)
        assert_raises(
            tw.ConfigError,
            "pass the DistributedDataParallel model itself",
            lambda: tw.attach(model, "topk", optimizer=optimizer),
        )
        assert_raises(
            tw.ConfigError,
            "contains a DistributedDataParallel model",
            lambda: tw.average(model, optimizer, "localsgd"),
        )
        assert optimizer.param_groups[0]["momentum"] == 0.9
    sharded_part = nn.Sequential(FullyShardedDataParallel(make_model()))
    for model in (sharded_part, sharded_part[0]):
        optimizer = sgd(model)
        for call in (
            lambda: tw.attach(model, "topk", optimizer=optimizer),
            lambda: tw.average(model, optimizer, "localsgd"),
        ):
            assert_raises(tw.ConfigError, "FullyShardedDataParallel", call)


def case_an_exchange_without_a_step_warns(rank: int, size: int) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger("thinwire").addHandler(handler)
    try:
        model = DDP(make_model())
        optimizer = sgd(model)
        # A mistake that cannot be seen in the module: its DistributedDataParallel is unknown.
        with tw.attach(model.module, "topk", optimizer=optimizer, steps=STEPS):
            train(model, optimizer, rank)
        assert "without a single step" in stream.getvalue(), stream.getvalue()
        assert ".module" in stream.getvalue(), stream.getvalue()
        stream.truncate(0)
        with tw.attach(model, "topk", optimizer=optimizer, steps=STEPS):
            train(model, optimizer, rank)
        assert "without a single step" not in stream.getvalue(), stream.getvalue()
    finally:
        logging.getLogger("thinwire").removeHandler(handler)


def case_unfrozen_parameters_are_named(rank: int, size: int) -> None:
    for is_ddp in (False, True):
        model = make_model()
        model[0].weight.requires_grad_(False)
        trained = DDP(model) if is_ddp else model
        exchange = (lambda: None) if is_ddp else (lambda: tw.reduce_gradients(trained))
        optimizer = sgd(model)
        wire = tw.attach(trained, "topk", optimizer=optimizer, steps=STEPS)
        train(trained, optimizer, rank, steps=2, after=exchange)
        model[0].weight.requires_grad_(True)
        step = lambda: train(trained, optimizer, rank, steps=1, after=exchange)  # noqa: E731
        assert_raises(tw.ConfigError, "parameter 0.weight was frozen", step)
        model[0].weight.requires_grad_(False)
        train(trained, optimizer, rank, steps=1, after=exchange)
        wire.close()
        assert_replicas_identical(model)
    model[0].weight.requires_grad_(False)
    optimizer = sgd(model)
    tw.average(model, optimizer, "localsgd", steps=STEPS)
    model[0].weight.requires_grad_(True)
    step = lambda: train(model, optimizer, rank, steps=1)  # noqa: E731
    assert_raises(tw.ConfigError, "parameter 0.weight was frozen", step)
    optimizer.wire.close()


def case_another_communication_hook_is_refused(rank: int, size: int) -> None:
    hooked = DDP(make_model())
    hooked.register_comm_hook(None, default_hooks.allreduce_hook)
    models = [hooked]
    try:
        from torch.nn.parallel.distributed import _MixedPrecision

        models.append(DDP(make_model(), mixed_precision=_MixedPrecision(torch.float16)))
    except (ImportError, TypeError, AttributeError):
        pass  # torch 1.13
    for model in models:
        optimizer = sgd(model)
        # Rank 1 never joins, but rank 0 has the same error at once.
        assert_raises(
            tw.ConfigError,
            "no communication hook",
            lambda: tw.attach(model, "topk", optimizer=optimizer, steps=STEPS),
        )
        assert optimizer.param_groups[0]["momentum"] == 0.9


def case_one_backward_through_two_models(rank: int, size: int) -> None:
    models = [DDP(make_model(seed)) for seed in (1, 2)]
    both = nn.ModuleList(models)
    optimizers = [sgd(model) for model in models]
    wires = [
        tw.attach(model, "topk:density=0.1", optimizer=optimizer, steps=STEPS)
        for model, optimizer in zip(models, optimizers)
    ]
    for step in range(STEPS):
        both.zero_grad()
        (loss_of(models[0], rank, step) + 2 * loss_of(models[1], rank, step)).backward()
        for optimizer in optimizers:
            optimizer.step()
    for wire in wires:
        assert wire.stats()["steps"] == STEPS
        wire.close()
    assert_replicas_identical(both)


def case_a_subgroup_exchanges_alone(rank: int, size: int) -> None:
    if size < 3:
        raise Skip("needs three ranks")
    members = dist.new_group([1, 2])
    if rank == 0:
        return
    for is_ddp in (True, False):
        model = make_model(seed=rank)
        trained = DDP(model, process_group=members) if is_ddp else model
        optimizer = sgd(model)
        options = {"optimizer": optimizer, "steps": STEPS, "process_group": members}
        exchange = (lambda: None) if is_ddp else (lambda: tw.reduce_gradients(model))
        with tw.attach(trained, "topk:density=0.1", **options) as wire:
            assert (wire.rank, wire.size) == (rank - 1, 2)
            train(trained, optimizer, rank, after=exchange)
        own = flat(model)
        replicas = [torch.empty_like(own) for _ in range(2)]
        dist.all_gather(replicas, own, group=members)
        assert torch.equal(replicas[0], replicas[1])
