"""Gradient exchange: a communication hook for DistributedDataParallel, or a call of your own."""

from __future__ import annotations

import dataclasses
import time
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from thinwire._errors import ConfigError, UsageError
from thinwire._group import Session, log
from thinwire.torch import _ddp, _specs
from thinwire.torch._buffers import HostMemory, Layout
from thinwire.torch._join import world_size
from thinwire.torch._models import Frozen, TrainedModel, without_compile
from thinwire.torch._optimizers import is_enabled, unwrapped
from thinwire.torch._options import JOIN_TIMEOUT, TIMEOUT, JoinOptions, number, run_options
from thinwire.torch._sgd import MovedSettings
from thinwire.torch._steps import GradientSteps
from thinwire.torch._wire import SmallMeans, Wire

# Backward overlaps with the exchange if a model has several buckets; each costs some round trips.
BUCKET_BYTES = 25 << 20

_attached: "weakref.WeakKeyDictionary[torch.nn.Module, GradientExchange]" = (
    weakref.WeakKeyDictionary()
)


def attach(
    model: torch.nn.Module,
    spec: str,
    *,
    optimizer: Optional[torch.optim.Optimizer] = None,
    steps: int = 0,
    steps_per_epoch: float = 0,
    buckets: Optional[int] = None,
    scaler: Optional[Any] = None,
    seed: int = 1,
    warmup_steps: int = 0,
    process_group: Optional[Any] = None,
    timeout: float = TIMEOUT,
    join_timeout: float = JOIN_TIMEOUT,
    network: Optional[str] = None,
) -> "GradientExchange":
    """Lets a strategy exchange the gradients of a model; all ranks call it together.

    model: a DistributedDataParallel model, whose communication hook is registered; or any module,
        for which the program calls reduce_gradients() after each backward pass.
    spec: the strategy, for example "gtopk" or "topk:density=0.01" (python -m thinwire lists them).
    optimizer: torch.optim.SGD hands its momentum and weight decay over to strategies that apply
        them before the exchange, until close(). Every other optimizer stays as it is.
    steps: the number of steps of the whole run; automatic keys such as density=auto depend on it.
    steps_per_epoch: needed by a key with one value per epoch, such as warmup=0.25+0.1.
    buckets: how many parts of the gradient are exchanged on their own, so that the exchange runs
        during the backward pass. Default: one per 25 MiB.
    scaler: the GradScaler of the program, if any: gradients are exchanged without its factor.
    seed: of all random choices of the strategy; the same on all ranks.
    warmup_steps: the first steps, in which the learning rate rises.
    process_group: the ranks that exchange; default: that of the model, or all.
    timeout: how long, in seconds, a rank may be silent before all ranks get an error.
    join_timeout: how long, in seconds, attach() waits for the other ranks.
    network: imitates a network between ranks of one machine, for example "100mbit,1ms".
    """
    run = run_options(
        steps=steps, steps_per_epoch=steps_per_epoch, seed=seed, warmup_steps=warmup_steps
    )
    return GradientExchange(
        model,
        spec,
        optimizer=unwrapped(optimizer),
        run=run,
        buckets=buckets,
        scaler=scaler,
        join=JoinOptions(process_group, timeout, join_timeout, network),
    )


def reduce_gradients(model: torch.nn.Module) -> bool:
    """Exchanges the gradients of a model that was attached; call it after backward.

    A parameter without a gradient on some rank counts as one with a gradient of 0 there; without a
    gradient on all ranks it gets none. Returns False if a gradient of some rank was not finite;
    then there are no gradients (None), or infinite ones for a GradScaler, which skips the step.
    """
    exchange = _attached.get(without_compile(model))
    if exchange is None:
        raise UsageError("thinwire: attach() was not called for this model")
    return exchange.reduce_gradients()


def _number_of_buckets(numel: int, wanted: Optional[int]) -> int:
    return number("buckets", wanted or 0) or max(1, round(4 * numel / BUCKET_BYTES))


class HeldBucket(NamedTuple):
    """A bucket of DistributedDataParallel until the exchange of its step is complete."""

    future: "torch.futures.Future[torch.Tensor]"
    buffer: torch.Tensor
    parts: List[Tuple[int, torch.Tensor]]  # the index of a parameter, and its gradient


class GradientExchange(Wire):
    """The exchange of one model's gradients; made by attach()."""

    def __init__(
        self,
        model: torch.nn.Module,
        spec: str,
        *,
        optimizer: Optional[torch.optim.Optimizer],
        run: Dict[str, Any],
        buckets: Optional[int],
        scaler: Optional[Any],
        join: JoinOptions,
    ) -> None:
        trained = TrainedModel(model)
        attached = _attached.get(trained.model)
        if attached is not None and attached._session is not None:
            raise UsageError("thinwire: the model is attached already; close() the first exchange")
        if join.process_group is None:
            join = dataclasses.replace(join, process_group=trained.process_group)
        size = world_size(join.process_group)
        _specs.check_strategy(spec, size, "gradients", "thinwire.torch.average()")
        _specs.check_steps_per_epoch(spec, run["steps_per_epoch"])
        layout = Layout(trained.module, trained.ignored)
        self._frozen = Frozen(trained.module, trained.ignored, "attach()")
        self._moved = MovedSettings(optimizer, spec, size, layout.parameters)
        self._ddp_waits = trained.ddp_waits
        self._scaler: Any = scaler
        self._is_scaled = False  # the gradients of this step contain the factor of the scaler
        self._means: Optional[SmallMeans] = None
        self._held: List[HeldBucket] = []  # buckets of DistributedDataParallel in this step
        self._failure: Optional[Exception] = None  # of this step
        wanted = _number_of_buckets(layout.numel, buckets)
        self._options = {
            **run,
            "buckets": 1 if size == 1 else wanted,
            "momentum": self._moved.momentum,
            "nesterov": self._moved.nesterov,
        }
        # Before the join, so that all ranks fail in the same way if the model has another hook.
        self._hook_state = _ddp.register_hook(trained.model) if trained.is_ddp else None
        super().__init__(layout, spec, join)
        try:
            self._open(trained)
        except BaseException as error:
            self._give_up(error)
            raise
        _attached[trained.model] = self
        if self._hook_state is not None:
            self._hook_state.exchange = self
        if self.rank == 0 and run["steps"] == 0 and _specs.has_automatic_density(spec):
            log.warning(
                "thinwire: steps= is not given, so that density=auto of '%s' is 0.01, which is too "
                "low for runs of less than about 1000 steps; pass steps= to attach()",
                spec,
            )

    def _open(self, trained: TrainedModel) -> None:
        """Makes the models of all ranks equal, and begins the run."""
        self._steps = GradientSteps(
            self._layout,
            self._moved,
            size=self.size,
            finds_unused=trained.finds_unused,
            is_static=trained.is_static,
        )
        self._copy_wide_parameters()
        self._begin(None, 0)
        if trained.finds_unused and self.size > 1:
            self._means = SmallMeans(self._group, "used", len(self._layout.parameters))
        self._moved.move()

    def _begin(self, state: Optional[torch.Tensor], step: int) -> None:
        self._session = self._open_session(**self._options)
        if state is not None:
            self._session.load(state.data_ptr(), state.numel())
        if self.size == 1:
            self._session.begin(HostMemory(torch.zeros(1)), step)
        else:
            self._begin_with_parameters(self._session, step)
        self._steps_taken = self._first_step = step
        self._steps.set_buckets([bucket["begin"] for bucket in self._session.info()["buckets"]])

    def _begin_with_parameters(self, session: Session, step: int) -> None:
        """Copies the parameters of rank 0 to all ranks. Those that are equal are not written."""
        own, common = self._layout.buffer(), self._layout.buffer()
        tensors = [p.detach() for p in self._layout.parameters]
        own.gather(list(tensors))
        common.flat.copy_(own.flat)
        session.begin(common, step)
        for tensor, before, after in zip(tensors, own.views, common.views):
            if not torch.equal(before, after):
                tensor.copy_(after)

    # --- A step.

    def _start_step(self) -> None:
        if not self._is_between_steps:
            raise UsageError(
                "thinwire: a backward pass began while the exchange of the last one is not complete"
            )
        self._require_session()
        self._moved.check()
        self._frozen.check()
        self._is_scaled = is_enabled(self._scaler)
        scale = float(self._scaler.get_scale()) if self._is_scaled else 1.0
        self._is_between_steps = False
        self._steps.start(scale)

    def _finish_exchange(self) -> bool:
        """Waits for the exchange. Returns whether its result is to be applied."""
        began = time.monotonic()
        is_applied = self._steps.finish(self._require_session(), self._means)
        self.blocked_seconds += time.monotonic() - began
        self._steps_taken += 1
        return is_applied

    def on_bucket(self, bucket: Any) -> "torch.futures.Future[torch.Tensor]":
        """Called by DistributedDataParallel for each of its buckets, in the same order everywhere.

        The last call waits for the exchange: backward has nothing left to compute then. An error
        is raised where the program called backward(), but only after DistributedDataParallel has
        completed its step: otherwise it would refuse the next one.
        """
        buffer = bucket.buffer()
        on_device = [] if buffer.device.type == "cpu" else [buffer.device]
        future: "torch.futures.Future[torch.Tensor]" = torch.futures.Future(devices=on_device)
        if bucket.index() == 0:
            self._failure, self._held = None, []
        self._held.append(HeldBucket(future, buffer, []))
        try:
            if self._failure is None:
                self._exchange_bucket(bucket, self._held[-1])
        except Exception as error:
            if self._ddp_waits:
                raise  # DistributedDataParallel would wait for ranks that wait in the exchange
            self._failure = error
        if bucket.is_last():
            if self._failure is not None:
                self._raise_after_backward(self._failure)
            held, self._held = self._held, []
            for each in held:
                each.future.set_result(each.buffer)
        return future

    def _exchange_bucket(self, bucket: Any, held: HeldBucket) -> None:
        if bucket.index() == 0:
            self._start_step()
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            index = self._layout.index_of(parameter)
            gradient = self._layout.like_parameter(index, gradient)
            held.parts.append((index, gradient))
            self._steps.take(index, gradient)
        self._steps.submit_ready(self._require_session())
        if bucket.is_last():
            self._deliver_buckets()

    def _deliver_buckets(self) -> None:
        if self._finish_exchange():
            for held in self._held:
                for index, gradient in held.parts:
                    self._steps.deliver(index, gradient)
        else:
            for held in self._held:
                # A GradScaler must see that the step was not finite, also on ranks where it was.
                held.buffer.fill_(float("inf") if self._is_scaled else 0.0)
            if not self._is_scaled:
                _ddp.after_backward(self._drop_gradients)
        self._steps.hand_over()
        self._is_between_steps = True

    def _raise_after_backward(self, error: Exception) -> None:
        def fail() -> None:
            self._drop_gradients()  # they were not exchanged
            raise error

        if not _ddp.after_backward(fail):
            raise error

    def _drop_gradients(self) -> None:
        """Leaves nothing that optimizer.step() could apply: no gradient, momentum or decay."""
        for parameter in self._layout.parameters:
            parameter.grad = None

    def reduce_gradients(self) -> bool:
        """Exchanges the gradients of the model; see thinwire.torch.reduce_gradients()."""
        if self._hook_state is not None:
            raise UsageError(
                "thinwire: DistributedDataParallel exchanges the gradients of this model in "
                "backward"
            )
        parameters = self._layout.parameters
        for name, parameter in zip(self._layout.names, parameters):
            if parameter.grad is not None and parameter.grad.is_sparse:
                raise ConfigError(
                    f"thinwire: the gradient of {name} is a sparse tensor; use a layer with "
                    "sparse=False"
                )
        self._start_step()
        for index, parameter in enumerate(parameters):
            self._steps.take(index, parameter.grad, parameter.grad is not None)
        is_applied = self._finish_exchange()
        if is_applied:
            for index, parameter in enumerate(parameters):
                if parameter.grad is None and self._steps.was_used(index) and self.size > 1:
                    parameter.grad = torch.zeros_like(parameter)
                self._steps.deliver(index, parameter.grad)
        elif self._is_scaled:
            for parameter in parameters:
                parameter.grad = torch.full_like(parameter, float("inf"))
        else:
            self._drop_gradients()
        self._steps.hand_over()
        self._is_between_steps = True
        return is_applied

    # --- Checkpoints.

    def state_dict(self) -> Dict[str, Any]:
        """Returns the state of this rank: residuals, velocities. Every rank saves its own."""
        return {**self._saved_state(), **self._steps.state()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Continues from a state that state_dict() returned on this rank; all ranks together."""
        session = self._require_session()
        try:
            saved = self._check_state(state)
            self._steps.load(state)
            session.close()
            self._copy_wide_parameters()
            self._begin(saved, state["step"])
        except BaseException as error:
            self._give_up(error)
            raise
        self._is_between_steps = True

    def _end(self, session: Session, limit: float, reason: str) -> None:
        session.end(None, limit, reason)

    def _why_no_step(self) -> str:
        if self._hook_state is not None:
            return "no backward() went through the DistributedDataParallel model"
        return (
            "reduce_gradients() was not called; pass the DistributedDataParallel model, not its "
            ".module, if there is one"
        )

    def _close_sessions(self) -> None:
        super()._close_sessions()
        if self._means is not None:
            self._means.close()

    def _restore(self) -> None:
        self._moved.restore()

    def _on_closed(self) -> None:
        # From now on the model trains as plain DistributedDataParallel.
        if self._hook_state is not None:
            self._hook_state.exchange = None
