"""Cases: momentum and weight decay that move from the optimizer to the strategy."""

from __future__ import annotations

import types
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import thinwire.torch as tw
from cases.common import (
    STEPS,
    assert_raises,
    assert_replicas_identical,
    loss_of,
    make_model,
    sgd,
    train,
)


def case_momentum_moves_and_comes_back(rank: int, size: int) -> None:
    model = make_model()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.SGD(
        [{"params": decayed, "weight_decay": 0.01}, {"params": others}], lr=0.1, momentum=0.9
    )
    wire = tw.attach(model, "topk", optimizer=optimizer, steps=5)
    assert [g["momentum"] for g in optimizer.param_groups] == [0, 0]
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0, 0]
    saved = optimizer.state_dict()
    wire.close()
    assert [g["momentum"] for g in optimizer.param_groups] == [0.9, 0.9]
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.01, 0]
    # A checkpoint that was saved meanwhile still knows the momentum.
    optimizer.load_state_dict(saved)
    wire = tw.attach(model, "topk", optimizer=optimizer, steps=5)
    assert wire._moved.momentum == 0.9
    wire.close()
    # A checkpoint that was saved under topk gives dense its momentum, too.
    optimizer.load_state_dict(saved)
    with tw.attach(model, "dense", optimizer=optimizer, steps=5):
        assert [g["momentum"] for g in optimizer.param_groups] == [0.9, 0.9]
        assert [g["weight_decay"] for g in optimizer.param_groups] == [0.01, 0]
    # The state of another run that is loaded afterwards would apply momentum twice.
    plain = optimizer.state_dict()
    wire = tw.attach(model, "topk", optimizer=optimizer, steps=5)
    dist.barrier()
    optimizer.load_state_dict(plain)
    loss_of(model, rank, 0).backward()
    assert_raises(tw.ConfigError, "applied twice", lambda: tw.reduce_gradients(model))
    wire.abort("the test is over")
    dist.barrier()
    # dense leaves momentum to the optimizer.
    with tw.attach(model, "dense", optimizer=optimizer, steps=5):
        assert optimizer.param_groups[0]["momentum"] == 0.9


def case_momentum_that_cannot_move_is_refused(rank: int, size: int) -> None:
    model = make_model()
    parameters = list(model.parameters())
    groups = [{"params": parameters[:2], "momentum": 0.5}, {"params": parameters[2:]}]
    different = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    assert_raises(
        tw.ConfigError, "topk:momentum=plain", lambda: tw.attach(model, "topk", optimizer=different)
    )
    dampened = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.5)
    assert_raises(
        tw.ConfigError, "dampening", lambda: tw.attach(model, "gtopk", optimizer=dampened)
    )
    climbing = torch.optim.SGD(parameters, lr=0.1, weight_decay=0.1, maximize=True)
    assert_raises(
        tw.ConfigError, "maximize", lambda: tw.attach(model, "topk", optimizer=climbing)
    )
    shared = sgd(nn.ModuleList([model, make_model()]))
    assert_raises(
        tw.ConfigError, "not in this model", lambda: tw.attach(model, "topk", optimizer=shared)
    )
    adam = torch.optim.Adam(parameters)
    assert_raises(
        tw.ConfigError,
        "Adam",
        lambda: tw.attach(model, "topk:momentum=corrected", optimizer=adam),
    )
    with tw.attach(model, "topk:momentum=plain", optimizer=dampened, steps=5):
        assert dampened.param_groups[0]["momentum"] == 0.9
    with tw.attach(model, "topk", optimizer=adam, steps=5):
        pass


def case_velocity_begins_at_zero(rank: int, size: int) -> None:
    """Momentum of before attach() is not applied again after close()."""
    model = make_model()
    optimizer = sgd(model)
    reduce = lambda: tw.reduce_gradients(model)  # noqa: E731
    with tw.attach(model, "dense", optimizer=optimizer, steps=2):
        train(model, optimizer, rank, steps=2, after=reduce)
    assert all("momentum_buffer" in state for state in optimizer.state.values())
    wire = tw.attach(model, "topk", optimizer=optimizer, steps=2)
    assert all(state.get("momentum_buffer") is None for state in optimizer.state.values())
    train(model, optimizer, rank, steps=2, first=2, after=reduce)
    wire.close()
    assert all(state.get("momentum_buffer") is None for state in optimizer.state.values())
    # An attach() that fails changes nothing.
    other = make_model()
    optimizer = sgd(other)
    loss_of(other, rank, 0).backward()
    optimizer.step()
    own = "topk" if rank == 0 else "gtopk"
    assert_raises(tw.ConfigError, "", lambda: tw.attach(other, own, optimizer=optimizer))
    assert all(state["momentum_buffer"] is not None for state in optimizer.state.values())
    assert optimizer.param_groups[0]["momentum"] == 0.9


def case_arguments_that_are_missing_are_named(rank: int, size: int) -> None:
    model = make_model()
    assert_raises(
        tw.ConfigError, "steps_per_epoch=", lambda: tw.attach(model, "topk:warmup=0.25+0.1", steps=9)
    )
    with tw.attach(model, "topk:warmup=0.25+0.1", steps=9, steps_per_epoch=3):
        pass
    for value in ("corrected", "unmasked"):
        spec = f"topk:momentum={value}"
        assert_raises(tw.ConfigError, "pass the optimizer", lambda: tw.attach(model, spec, steps=9))


def case_warmup_by_epoch_is_used(rank: int, size: int) -> None:
    sent = []
    for warmup in ("1+1", "none"):
        model = make_model()
        optimizer = sgd(model)
        spec = f"topk:density=0.01,warmup={warmup}"
        with tw.attach(model, spec, optimizer=optimizer, steps=6, steps_per_epoch=3) as wire:
            train(model, optimizer, rank, after=lambda: tw.reduce_gradients(model))
            sent.append(wire.stats()["bytes_sent"])
    assert sent[0] > 5 * sent[1], sent


def case_a_failed_check_leaves_the_exchange_alive(rank: int, size: int) -> None:
    for options in (None, {}, {"bucket_cap_mb": 0.01}, {"static_graph": True}):
        model = make_model() if options is None else DDP(make_model(), **options)
        exchange = (lambda: tw.reduce_gradients(model)) if options is None else (lambda: None)
        optimizer = sgd(model)

        def step(number: int) -> None:
            loss_of(model, rank, number).backward()
            exchange()

        with tw.attach(model, "topk", optimizer=optimizer, steps=STEPS):
            train(model, optimizer, rank, steps=2, after=exchange)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5)
            for name in ("OneCycleLR", "cycle_momentum=False"):
                assert_raises(tw.ConfigError, name, lambda: step(2))
            if options is not None:  # local gradients must not be applied
                assert all(p.grad is None for p in model.parameters())
            del schedule
            optimizer.param_groups[0]["momentum"] = 0
            train(model, optimizer, rank, first=2, steps=2, after=exchange)
        assert_replicas_identical(model)


def case_a_refused_second_exchange_leaves_the_first_alone(rank: int, size: int) -> None:
    model, other = make_model(), make_model()
    optimizer = sgd(model)
    with tw.attach(model, "topk", optimizer=optimizer, steps=STEPS):
        for spec in ("topk", "dense"):
            assert_raises(
                tw.ConfigError,
                "another exchange",
                lambda: tw.attach(other, spec, optimizer=optimizer, steps=STEPS),
            )
        assert optimizer.param_groups[0]["momentum"] == 0
        train(model, optimizer, rank, after=lambda: tw.reduce_gradients(model))
    assert optimizer.param_groups[0]["momentum"] == 0.9
    assert_replicas_identical(model)


class WrappedOptimizer(torch.optim.Optimizer):
    """As AcceleratedOptimizer and LightningOptimizer: the optimizer is in an attribute."""

    scaler = None

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    def step(self, closure: Any = None) -> Any:
        return self.optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)


def case_wrapped_optimizers(rank: int, size: int) -> None:
    model = make_model()
    optimizer = sgd(model)
    outer = WrappedOptimizer(optimizer)
    with tw.attach(model, "topk", optimizer=outer, steps=STEPS) as wire:
        assert wire._moved.momentum == 0.9 and optimizer.param_groups[0]["momentum"] == 0
        train(model, outer, rank, after=lambda: tw.reduce_gradients(model))
    assert optimizer.param_groups[0]["momentum"] == 0.9
    assert tw.average(model, outer, "localsgd", steps=STEPS) is outer
    for twice in (outer, optimizer):
        assert_raises(tw.UsageError, "twice", lambda: tw.average(model, twice, "localsgd"))
    train(model, outer, rank)
    assert outer.wire.stats()["steps"] == STEPS
    outer.wire.finish()
    outer.wire.close()
    assert not hasattr(outer, "wire") and not hasattr(optimizer, "wire")
    assert_replicas_identical(model)
    outer.scaler = types.SimpleNamespace(is_enabled=lambda: True)
    assert_raises(tw.ConfigError, "GradScaler", lambda: tw.average(model, outer, "localsgd"))


def case_a_step_with_a_closure_is_refused(rank: int, size: int) -> None:
    model = make_model()
    optimizer = torch.optim.LBFGS(model.parameters())
    assert_raises(tw.ConfigError, "LBFGS", lambda: tw.average(model, optimizer, "localsgd"))


def case_wrong_numbers_are_named(rank: int, size: int) -> None:
    model = make_model()
    nan, inf = float("nan"), float("inf")
    wrong = [("steps", nan), ("steps", -1), ("steps", "many"), ("steps", 1.5), ("seed", inf)]
    wrong += [("warmup_steps", inf), ("timeout", inf), ("join_timeout", 0), ("timeout", None)]
    for name, value in [*wrong, ("steps_per_epoch", nan), ("buckets", -1)]:
        call = lambda: tw.attach(model, "topk", **{name: value})  # noqa: E731
        assert_raises(tw.ConfigError, f"thinwire: {name} ", call)
    for name, value in [*wrong, ("samples", inf), ("samples_per_step", 0.5)]:
        call = lambda: tw.average(model, sgd(model), "localsgd", **{name: value})  # noqa: E731
        assert_raises(tw.ConfigError, f"thinwire: {name} ", call)
    # Lightning says so of a run whose length is unknown.
    with tw.attach(model, "topk", steps=inf, steps_per_epoch=10):
        pass
