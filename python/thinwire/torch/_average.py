"""Strategies that average the models of ranks, each of which applies its own gradients."""

from __future__ import annotations

import math
import time
from typing import Any, Dict, Optional, cast

import torch

from thinwire._errors import ConfigError, UsageError
from thinwire._group import Session, log
from thinwire.torch import _sgd, _specs
from thinwire.torch._buffers import Buffer, HostMemory, Layout
from thinwire.torch._join import world_size
from thinwire.torch._models import Frozen, refuse_wrapped, without_compile
from thinwire.torch._optimizers import (
    ReplacedStep,
    refuse_steps_that_cannot_be_averaged,
    unwrapped,
)
from thinwire.torch._options import JOIN_TIMEOUT, TIMEOUT, JoinOptions, number, run_options
from thinwire.torch._wire import Wire


class AveragedOptimizer(torch.optim.Optimizer):
    """The type of what average() returns: the optimizer of the program, with ``wire``.

    It is for type checkers only. The optimizer keeps its own class.
    """

    wire: "ModelAverage"


def average(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    spec: str,
    *,
    steps: int = 0,
    samples: int = 0,
    samples_per_step: int = 1,
    seed: int = 1,
    warmup_steps: int = 0,
    process_group: Optional[Any] = None,
    timeout: float = TIMEOUT,
    join_timeout: float = JOIN_TIMEOUT,
    network: Optional[str] = None,
) -> AveragedOptimizer:
    """Lets a strategy average the models of all ranks; all ranks call it together.

    Returns the same optimizer. Its step() now also exchanges models, and ``optimizer.wire`` is the
    ModelAverage, whose finish() makes all models equal after the last step. The model must not be
    a DistributedDataParallel model.

    spec: "localsgd", "lasgd" or "gossip", with keys.
    steps: the number of steps of each rank; automatic keys depend on it.
    samples: the examples that all ranks together train on. If it is given, ``optimizer.wire.done``
        becomes True on all ranks at about the same time, so that fast ranks take more steps.
    samples_per_step: the examples that this rank uses in a step.
    The other arguments are those of attach(). A GradScaler needs no argument: its step() calls
    that of the optimizer in every step, and a rank without finite gradients applies none.
    """
    if not isinstance(unwrapped(optimizer), torch.optim.Optimizer):
        raise ConfigError(
            "thinwire: the second argument of average(model, optimizer, spec) is no optimizer "
            f"({type(optimizer).__name__})"
        )
    model = without_compile(model)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise ConfigError(
            "thinwire: average() exchanges models, and DistributedDataParallel gradients; pass the "
            "model that it wraps (model.module), and do not use DistributedDataParallel"
        )
    refuse_wrapped(model, "average()")
    if hasattr(unwrapped(optimizer), "wire"):
        raise UsageError("thinwire: average() was called twice for this optimizer")
    refuse_steps_that_cannot_be_averaged(optimizer, unwrapped(optimizer))
    run = run_options(steps=steps, samples=samples, seed=seed, warmup_steps=warmup_steps)
    ModelAverage(
        model,
        optimizer,
        spec,
        run=run,
        samples_per_step=number("samples_per_step", samples_per_step),
        join=JoinOptions(process_group, timeout, join_timeout, network),
    )
    return cast(AveragedOptimizer, optimizer)


class ModelAverage(Wire):
    """The exchange of models; made by average()."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        spec: str,
        *,
        run: Dict[str, Any],
        samples_per_step: int,
        join: JoinOptions,
    ) -> None:
        size = world_size(join.process_group)
        self._mode = _specs.check_strategy(spec, size, "models", "thinwire.torch.attach()")
        layout = Layout(model)
        self._frozen = Frozen(model, (), "average()")
        _refuse_wide(layout, size)
        self._wrapper = optimizer  # of another library, or the optimizer itself
        self._optimizer = unwrapped(optimizer)
        optimizer = self._optimizer
        # The torch optimizer applies momentum and weight decay; the strategy only has to know them.
        _sgd.give_back(optimizer)
        self._options = {**run, **_sgd.settings_of(optimizer)}
        self._samples = run["samples"]
        self._samples_per_step = samples_per_step
        self._is_finished = False
        self._replaced: Optional[ReplacedStep] = None
        super().__init__(layout, spec, join)
        try:
            self._samples_of_all = self._count_samples_of_all()
            if size == 1:  # one rank alone exchanges whether its gradients are finite
                self._alone = HostMemory(torch.zeros(1))
            else:
                self._parameters, self._gradients = layout.buffer(), layout.buffer()
                self._move_parameters(self._parameters)
            self._begin(None, 0)
            self._replaced = ReplacedStep(
                optimizer, self.step, is_active=lambda: self._session is not None
            )
            for each in (optimizer, self._wrapper):
                each.wire = self  # type: ignore[attr-defined]
        except BaseException as error:
            self._give_up(error)
            raise

    def _count_samples_of_all(self) -> float:
        """Returns the examples of a step of all ranks. Asynchronous ones do not use it."""
        if self._samples == 0 or self.size == 1 or self._mode == "asynchronous":
            return float(self._samples_per_step)
        return float(round(sum(self._gather_number(float(self._samples_per_step)))))

    def _move_parameters(self, buffer: Buffer) -> None:
        """Makes parameters parts of the buffer where possible, so that steps copy nothing."""
        for index, parameter in enumerate(self._layout.parameters):
            data = parameter.data
            if buffer.can_hold(parameter) and _owns_its_memory(data):
                buffer.views[index].copy_(data)
                parameter.data = buffer.views[index]

    def _begin(self, state: Optional[torch.Tensor], step: int) -> None:
        self._session = self._open_session(**self._options)
        if state is not None:
            self._session.load(state.data_ptr(), state.numel())
        if self.size == 1:
            self._session.begin(self._alone, step)
        else:
            self._gather_parameters()
            self._session.begin(self._parameters, step)
            self._scatter_parameters()
        self._steps_taken = self._first_step = step
        self._is_finished = False

    def _gather_parameters(self) -> None:
        self._parameters.gather([p.detach() for p in self._layout.parameters])

    def _scatter_parameters(self) -> None:
        with torch.no_grad():
            self._parameters.scatter([p.detach() for p in self._layout.parameters])

    def step(self, closure: Optional[Any] = None) -> Any:
        """Called by optimizer.step(): applies this rank's gradients and exchanges models."""
        session = self._require_session()
        if self._is_finished:
            raise UsageError("thinwire: step() after finish()")
        self._frozen.check()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._is_between_steps = False
        rate = float(self._optimizer.param_groups[0]["lr"])
        if self.size == 1:
            self._step_alone(session, rate)
        else:
            self._step_together(session, rate)
        self._steps_taken += 1
        self._is_between_steps = True
        return loss

    def _step_at(self, scale: float) -> None:
        """Lets the optimizer apply the gradients, at ``scale`` times its learning rate."""
        if scale == 1:
            self._replaced.own()  # type: ignore[union-attr]
            return
        groups = self._optimizer.param_groups
        rates = [group["lr"] for group in groups]
        try:
            for group, rate in zip(groups, rates):
                group["lr"] = rate * scale
            self._replaced.own()  # type: ignore[union-attr]
        finally:
            for group, rate in zip(groups, rates):
                group["lr"] = rate

    def _step_together(self, session: Session, rate: float) -> None:
        parameters, gradients = self._parameters, self._gradients
        self._gather_parameters()
        with torch.no_grad():
            gradients.gather([p.grad for p in self._layout.parameters])
        began = time.monotonic()
        session.submit(0, parameters, gradients)
        is_skipped = session.wait()
        self.blocked_seconds += time.monotonic() - began
        if not is_skipped:
            self._give_gradients_back()
            self._step_at(session.stats()["step_scale"])
            self._gather_parameters()
        began = time.monotonic()
        session.finish_step(parameters, self._samples_per_step, rate)
        self.blocked_seconds += time.monotonic() - began
        self._scatter_parameters()

    def _give_gradients_back(self) -> None:
        """The strategy may have changed gradients: the buffer becomes the gradients."""
        for index, parameter in enumerate(self._layout.parameters):
            gradient, view = parameter.grad, self._gradients.views[index]
            if gradient is None or self._gradients.holds(index, gradient):
                continue
            if self._gradients.can_hold(gradient):
                parameter.grad = view
            else:
                gradient.detach().copy_(view)

    def _step_alone(self, session: Session, rate: float) -> None:
        gradients = [p.grad for p in self._layout.parameters if p.grad is not None]
        is_finite = all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
        values = torch.tensor([0.0 if is_finite else float("nan")])
        session.submit(0, self._alone, HostMemory(values))
        if not session.wait():
            self._replaced.own()  # type: ignore[union-attr]
        session.finish_step(self._alone, self._samples_per_step, rate)

    @property
    def done(self) -> bool:
        """Whether all ranks together have trained on the samples that average() was given.

        Without samples: whether this rank has taken the steps that average() was given.
        """
        session = self._require_session()
        if self._samples > 0:
            if self._mode == "asynchronous" and self.size > 1:
                return bool(session.stats()["global_samples"] >= self._samples)
            return bool(self._steps_taken * self._samples_of_all >= self._samples)
        if self._options["steps"] > 0:
            return bool(self._steps_taken >= self._options["steps"])
        raise UsageError(
            "thinwire: done: the length of the run is unknown; pass samples= or steps="
        )

    def finish(self) -> None:
        """Makes the models of all ranks equal, after the last step; all ranks call it."""
        session = self._require_session()
        if not self._is_finished:
            self._finish(session, math.inf, "")

    def _finish(self, session: Session, limit: float, reason: str) -> None:
        self._is_finished = True
        if self.size == 1:
            return session.end(self._alone)
        self._gather_parameters()
        session.end(self._parameters, limit, reason)
        self._scatter_parameters()

    def state_dict(self) -> Dict[str, Any]:
        """Returns the state of this rank; all ranks call it together, each saves its own.

        Models may differ between ranks: save the parameters of every rank with it.
        """
        session = self._require_session()
        if self.size > 1:
            self._gather_parameters()
            session.quiesce(self._parameters)
            self._scatter_parameters()
        return self._saved_state()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Continues from a state that state_dict() returned on this rank; all ranks together.

        Load the parameters of this rank before, but after average(), which copies those of rank 0.
        """
        session = self._require_session()
        try:
            saved = self._check_state(state)
            session.close()
            self._begin(saved, state["step"])
        except BaseException as error:
            self._give_up(error)
            raise

    def _end(self, session: Session, limit: float, reason: str) -> None:
        if self._is_finished:
            return
        if math.isfinite(limit):
            log.warning(
                "thinwire: the program ends without finish() of '%s'; the models of the ranks may "
                "differ",
                self.spec,
            )
            # A periodic strategy would take this for the average of a step of another rank.
            if self._mode == "periodic":
                return
        self._finish(session, limit, reason)

    def _why_no_step(self) -> str:
        return "step() of the optimizer that was given to average() was not called"

    def _restore(self) -> None:
        replaced, self._replaced = self._replaced, None
        if replaced is not None:
            replaced.restore()
            for each in {id(o): o for o in (self._optimizer, self._wrapper)}.values():
                del each.wire  # type: ignore[attr-defined]


def _refuse_wide(layout: Layout, size: int) -> None:
    for name, parameter in zip(layout.names, layout.parameters):
        if parameter.dtype == torch.float64 and size > 1:
            raise ConfigError(
                f"thinwire: parameter {name} is float64, but models are exchanged as float32; "
                "convert the model with model.float(), or use attach(), which leaves parameters "
                "alone"
            )


def _owns_its_memory(data: torch.Tensor) -> bool:
    """Returns whether no other process and no larger tensor uses the memory of a tensor."""
    storage: Any = data.untyped_storage() if hasattr(data, "untyped_storage") else data.storage()
    used: int = storage.nbytes()
    return not data.is_shared() and used == data.numel() * data.element_size()
