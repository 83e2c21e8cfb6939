"""Cases: GradScaler, and gradients of other types than float32."""

from __future__ import annotations

import enum
import itertools

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import thinwire.torch as tw
from cases.common import STEPS, Skip, assert_replicas_identical, batch, flat, loss_of, make_model, sgd


def case_scaled_gradients_leave_the_same_residuals(rank: int, size: int) -> None:
    class Scaler:
        factor = 1.0

        def get_scale(self) -> float:
            return self.factor

    results = []
    for factors in ([1.0] * 6, [8.0, 8.0, 4.0, 4.0, 16.0, 16.0]):
        model = DDP(make_model())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scaler = Scaler()
        wire = tw.attach(model, "topk:density=0.1", optimizer=optimizer, steps=6, scaler=scaler)
        for step, factor in enumerate(factors):
            scaler.factor = factor
            optimizer.zero_grad()
            (loss_of(model, rank, step) * factor).backward()
            for parameter in model.parameters():
                parameter.grad.div_(factor)
            optimizer.step()
        # A step that is not finite on one rank is not finite on any, and leaves no trace.
        optimizer.zero_grad()
        (loss_of(model, rank, 7) * (float("inf") if rank == 0 else 1.0)).backward()
        assert all(not torch.isfinite(p.grad).any() for p in model.parameters())
        assert wire.stats()["skipped_steps"] == 1
        optimizer.zero_grad()
        loss_of(model, rank, 8).mul(scaler.factor).backward()
        for parameter in model.parameters():
            parameter.grad.div_(scaler.factor)
        optimizer.step()
        wire.close()
        assert_replicas_identical(model)
        results.append(flat(model))
    assert torch.equal(results[0], results[1])  # powers of two change no bit


class DisabledScaler:
    """A GradScaler with enabled=False, which torch 1.13 has only for CUDA: it skips no step."""

    def is_enabled(self) -> bool:
        return False

    def get_scale(self) -> float:
        return 1.0

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()


def case_a_disabled_gradscaler_is_none(rank: int, size: int) -> None:
    scalers = [DisabledScaler(), torch.cuda.amp.GradScaler(enabled=False)]
    for scaler, is_ddp in itertools.product(scalers, (True, False)):
        model = DDP(make_model()) if is_ddp else make_model()
        optimizer = sgd(model)
        options = {"optimizer": optimizer, "steps": 4, "scaler": scaler}
        with tw.attach(model, "topk:density=0.1", **options) as wire:
            for step in range(4):
                optimizer.zero_grad()
                is_bad = step == 2 and rank == 0
                (loss_of(model, rank, step) * (float("inf") if is_bad else 1.0)).backward()
                if not is_ddp:
                    tw.reduce_gradients(model)
                scaler.step(optimizer)
            assert wire.stats()["skipped_steps"] == 1
        assert torch.isfinite(flat(model)).all(), "the skipped step was applied"
        assert_replicas_identical(model)


def case_gradscaler_of_torch(rank: int, size: int) -> None:
    try:
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100, growth_interval=4)
    except (AttributeError, TypeError):
        raise Skip("this torch has no GradScaler for the CPU") from None
    model = DDP(make_model())
    optimizer = sgd(model)
    with tw.attach(model, "topk:density=0.1", optimizer=optimizer, steps=120, scaler=scaler) as wire:
        for step in range(60):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(model, rank, step)
            scaler.scale(loss.float() * 2.0**60).backward()
            scaler.step(optimizer)
            scaler.update()
        stats = wire.stats()
    assert 0 < stats["skipped_steps"] < 60, stats
    assert torch.isfinite(flat(model)).all()
    assert_replicas_identical(model)


class Stage(enum.Enum):
    READY = 0
    UNSCALED = 1


class OldScaler:
    """A GradScaler as that of torch 1.13, which has it only for CUDA."""

    def __init__(self) -> None:
        self.scale = 8.0
        self._per_optimizer_states: dict = {}

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        assert self._per_optimizer_states[id(optimizer)]["stage"] is Stage.READY, "twice"
        self._per_optimizer_states[id(optimizer)]["stage"] = Stage.UNSCALED
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad.div_(self.scale)

    def start(self, optimizer: torch.optim.Optimizer) -> None:
        self._per_optimizer_states[id(optimizer)] = {"stage": Stage.READY}

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            optimizer.step(grad_scaler=self)
            return
        if self._per_optimizer_states[id(optimizer)]["stage"] is Stage.READY:
            self.unscale_(optimizer)
        grads = [parameter.grad for parameter in optimizer.param_groups[0]["params"]]
        if all(bool(torch.isfinite(grad).all()) for grad in grads):
            optimizer.step()


def case_average_with_an_old_gradscaler(rank: int, size: int) -> None:
    scaler = OldScaler()
    results = []
    for spec, is_scaled in (("localsgd:period=2", False), ("localsgd:period=2", True)):
        model = make_model()
        optimizer = sgd(model)
        tw.average(model, optimizer, spec, steps=8, timeout=20)
        for step in range(8):
            optimizer.zero_grad()
            is_bad = step == 3 and rank == 0  # this rank alone would skip the step
            loss = loss_of(model, rank, step) * (float("inf") if is_bad else 1.0)
            if is_scaled:
                scaler.start(optimizer)
                (loss * scaler.scale).backward()
                if step % 2 == 0:
                    scaler.unscale_(optimizer)  # such as before gradient clipping
                scaler.step(optimizer)
            else:
                loss.backward()
                optimizer.step()
        assert optimizer.wire.stats()["skipped_steps"] == (1 if rank == 0 else 0)
        optimizer.wire.finish()
        optimizer.wire.close()
        assert not hasattr(optimizer, "_step_supports_amp_scaling")
        assert_replicas_identical(model)
        results.append(flat(model))
    assert torch.equal(results[0], results[1])  # powers of two change no bit


def case_average_with_a_gradscaler_of_torch(rank: int, size: int) -> None:
    for spec in ("localsgd:period=2", "lasgd", "gossip"):
        try:
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100, growth_interval=4)
        except (AttributeError, TypeError):
            raise Skip("this torch has no GradScaler for the CPU") from None
        model = make_model()
        optimizer = sgd(model)
        tw.average(model, optimizer, spec, steps=60, timeout=20)
        for step in range(60):
            optimizer.zero_grad()
            loss = loss_of(model, rank, step)
            # The ranks skip different steps.
            scaler.scale(loss * 2.0 ** (60 - 10 * rank)).backward()
            if step % 2 == 0:
                scaler.unscale_(optimizer)
            for parameter in model.parameters():
                parameter.grad.div_(2.0 ** (60 - 10 * rank))
            scaler.step(optimizer)
            scaler.update()
        assert 0 < optimizer.wire.stats()["skipped_steps"] < 60
        assert not hasattr(optimizer, "found_inf")
        optimizer.wire.finish()
        optimizer.wire.close()
        assert torch.isfinite(flat(model)).all()
        assert_replicas_identical(model)


def case_sixteen_bit_gradients(rank: int, size: int) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        try:
            model = make_model().to(dtype)
            model(batch(0, 0, dtype)[0])
        except RuntimeError:
            continue  # this torch has no such kernels on the CPU
        # Gloo of torch 1.13 has no bfloat16, so that DistributedDataParallel cannot be used.
        is_ddp = dtype == torch.float16 or torch.__version__ >= "2"
        model = DDP(model) if is_ddp else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        with tw.attach(model, "topk:density=0.2,values=fp32", optimizer=optimizer, steps=STEPS) as wire:
            for step in range(STEPS):
                optimizer.zero_grad()
                loss_of(model, rank, step, dtype).backward()
                if not is_ddp:
                    tw.reduce_gradients(model)
                optimizer.step()
            undelivered = wire.state_dict()["undelivered"]
            assert undelivered is not None and undelivered.abs().max() > 0
        assert_replicas_identical(model)


def case_sixteen_bit_overflow_is_forgotten(rank: int, size: int) -> None:
    model = nn.Linear(4, 1, bias=False).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    with tw.attach(model, "topk:density=1", optimizer=optimizer, steps=20) as wire:
        for step in range(12):
            model.weight.grad = torch.full_like(model.weight, 30000.0 if step < 3 else 1.0)
            tw.reduce_gradients(model)
        assert torch.isfinite(wire.state_dict()["undelivered"]).all()
    assert torch.isfinite(model.weight.grad).all()
