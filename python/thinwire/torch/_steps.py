"""The steps of a gradient exchange: gradients go from torch to a session and back."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from thinwire._errors import ConfigError
from thinwire._group import Session
from thinwire.torch._buffers import HostMemory, Layout
from thinwire.torch._device import CopyQueue
from thinwire.torch._sgd import MovedSettings
from thinwire.torch._wire import SmallMeans


class GradientSteps:
    """Takes the gradients of a step, lets a session exchange them, and delivers the results.

    finds_unused: a step may leave out parameters. Those that no rank used in a step get no weight
        decay, and their results are delivered in the next step that uses them.
    is_static: every step uses the same parameters.
    """

    def __init__(
        self,
        layout: Layout,
        moved: MovedSettings,
        *,
        size: int,
        finds_unused: bool,
        is_static: bool,
    ) -> None:
        self._layout = layout
        self._is_alone = size == 1  # then gradients stay as they are
        self._finds_unused = finds_unused and size > 1
        self._is_static = is_static
        self._decay = [moved.weight_decay_of(parameter) for parameter in layout.parameters]
        self._is_known: List[bool] = [False] * len(layout.parameters)  # some rank has used it
        self._queues: Dict[torch.device, CopyQueue] = {}
        self._gradients = None if self._is_alone else layout.buffer()
        rounds = any(parameter.element_size() < 4 for parameter in layout.parameters)
        # Parts of exchanged gradients that could not be delivered: the rounding errors of 16-bit
        # gradients, and gradients of parameters that no rank used in a step.
        keeps = (rounds or self._finds_unused) and not self._is_alone
        self.undelivered = layout.buffer() if keeps else None
        self._is_finite = torch.zeros(1)  # of one rank alone, which exchanges this instead

    def set_buckets(self, begins: List[int]) -> None:
        """Takes over where the buckets of a new session begin."""
        self._bucket_of: List[int] = []
        self._devices: List[List[torch.device]] = [[] for _ in begins]
        bucket = 0
        for offset, parameter in zip(self._layout.offsets, self._layout.parameters):
            while bucket + 1 < len(begins) and begins[bucket + 1] <= offset:
                bucket += 1
            self._bucket_of.append(bucket)
            if parameter.device not in self._devices[bucket]:
                self._devices[bucket].append(parameter.device)
        self._sizes = [self._bucket_of.count(bucket) for bucket in range(len(begins))]
        self.reset()

    def reset(self) -> None:
        """Forgets a step that was not completed."""
        self._missing = list(self._sizes)
        self._ready: List[Tuple[int, List[Any]]] = []  # complete buckets and events, not submitted
        self._deferred: List[Tuple[int, Optional[torch.Tensor]]] = []
        self._checks: List[torch.Tensor] = []  # whether gradients are finite
        self._own_use: Dict[int, Any] = {}  # whether this rank used a parameter
        self._used: List[bool] = []  # whether some rank did

    def start(self, scale: float) -> None:
        """Begins a step whose gradients contain this factor."""
        self.reset()
        self._scale = scale
        self._asks = self._finds_unused and not (self._is_static and all(self._is_known))
        # Weight decay depends on what the other ranks used.
        self._defers = self._asks and any(self._decay)
        self._used = [True] * len(self._layout.parameters)

    def take(self, index: int, gradient: Optional[torch.Tensor], is_used: Any = None) -> None:
        """Takes a gradient of this rank; None counts as zeros.

        is_used: whether this rank used the parameter; by default, whether the gradient is not 0.
        """
        if self._is_alone:
            if gradient is not None:
                self._checks.append(torch.isfinite(gradient).all())
            return
        if self._asks:
            if is_used is None and gradient is not None:
                is_used = gradient.any()  # evaluated later: a GPU may still compute it
            self._own_use[index] = False if is_used is None else is_used
        if self._defers:
            self._deferred.append((index, gradient))
        else:
            self._copy_in(index, gradient, self._decay[index])

    def _queue(self, device: torch.device) -> CopyQueue:
        if device not in self._queues:
            self._queues[device] = CopyQueue(device)
        return self._queues[device]

    def _copy_in(self, index: int, gradient: Optional[torch.Tensor], decay: float) -> None:
        """Copies a gradient into the buffer; its bucket is ready after the last one."""
        assert self._gradients is not None
        parameter, view = self._layout.parameters[index].detach(), self._gradients.views[index]
        queue = self._queue(parameter.device)
        with torch.no_grad(), queue.after_computation():
            value = torch.zeros_like(parameter) if gradient is None else queue.keep(gradient)
            if self._scale != 1.0:
                value = value.float().mul(1.0 / self._scale)
            if decay != 0:
                # Computed where the parameter is. Rounded twice, as the engine does.
                is_here = parameter.device == view.device
                decayed = view if is_here else torch.empty_like(value, dtype=torch.float32)
                value = torch.mul(parameter.float(), decay, out=decayed).add_(value)
            if value is not view:
                view.copy_(value, non_blocking=queue.is_asynchronous)
        bucket = self._bucket_of[index]
        self._missing[bucket] -= 1
        if self._missing[bucket] == 0:
            events = [self._queue(device).record() for device in self._devices[bucket]]
            self._ready.append((bucket, [event for each in events for event in each]))

    def submit_ready(self, session: Session, all_of_them: bool = False) -> None:
        """Starts the exchange of buckets that are in host memory, in the order of take()."""
        gradients = self._gradients
        assert gradients is not None or not self._ready
        while self._ready and (all_of_them or all(event.query() for event in self._ready[0][1])):
            bucket, events = self._ready.pop(0)
            for event in events:
                event.synchronize()
            session.submit(bucket, None, gradients)  # type: ignore[arg-type]

    def finish(self, session: Session, means: Optional[SmallMeans]) -> bool:
        """Completes the exchange. Returns whether its results are to be delivered."""
        if self._is_alone:
            return self._finish_alone(session)
        if self._defers:
            self._ask(means)
            for index, gradient in self._deferred:
                self._copy_in(index, gradient, self._decay[index] if self._used[index] else 0.0)
        if any(self._missing):
            raise ConfigError(
                "thinwire: DistributedDataParallel did not exchange the gradients of "
                f"{', '.join(self._missing_names())}; layers with sparse gradients need "
                "sparse=False"
            )
        self.submit_ready(session, all_of_them=True)
        skipped = session.wait()
        session.finish_step(None, 0, 0.0)
        if self._asks and not self._defers:
            self._ask(means)
        return not skipped

    def _finish_alone(self, session: Session) -> bool:
        is_finite = all(bool(check) for check in self._checks)
        self._is_finite.fill_(0.0 if is_finite else float("nan"))
        session.submit(0, None, HostMemory(self._is_finite))
        skipped = session.wait()
        session.finish_step(None, 0, 0.0)
        return not skipped

    def _ask(self, means: Optional[SmallMeans]) -> None:
        """Finds out which parameters some rank used in this step."""
        assert means is not None
        count = len(self._layout.parameters)
        shares = means([float(bool(self._own_use.get(index, False))) for index in range(count)])
        self._used = [share > 0 for share in shares]
        self._is_known = [known or used for known, used in zip(self._is_known, self._used)]
        if self._is_static:
            self._used = self._is_known

    def was_used(self, index: int) -> bool:
        """Returns whether some rank used the parameter in this step."""
        return self._used[index]

    def deliver(self, index: int, gradient: Optional[torch.Tensor]) -> None:
        """Copies an exchanged gradient to torch, if there is one and some rank used it."""
        if self._gradients is None:
            return
        view = self._gradients.views[index]
        queue = self._queue(self._layout.parameters[index].device)
        with torch.no_grad(), queue.after_computation():
            if self.undelivered is not None:
                undelivered = self.undelivered.views[index]
                undelivered.add_(view)
                if gradient is not None and self._used[index]:
                    self._deliver_rounded(undelivered, gradient)
            elif gradient is not None:
                gradient.copy_(view, non_blocking=queue.is_asynchronous)
                if self._scale != 1.0:
                    gradient.mul_(self._scale)

    def _deliver_rounded(self, undelivered: torch.Tensor, gradient: torch.Tensor) -> None:
        gradient.copy_(undelivered.mul(self._scale) if self._scale != 1.0 else undelivered)
        undelivered.sub_(gradient.to("cpu", torch.float32), alpha=1.0 / self._scale)
        # A value that is too large for 16 bits became infinite; what is left of it is no number.
        undelivered.nan_to_num_(0.0, 0.0, 0.0)

    def state(self) -> Dict[str, Any]:
        """Returns the part of a saved state that is not in the session."""
        undelivered = None if self.undelivered is None else self.undelivered.flat.clone()
        return {"undelivered": undelivered, "known": list(self._is_known)}

    def load(self, state: Dict[str, Any]) -> None:
        """Takes over what state() returned. Raises ConfigError if this exchange cannot keep it."""
        undelivered = state["undelivered"]
        if self.undelivered is None and undelivered is not None:
            raise ConfigError(
                "thinwire: the saved state has gradients that were not delivered yet, but this "
                "exchange keeps none; use the same options of DistributedDataParallel "
                "(find_unused_parameters, static_graph) and the same types of parameters"
            )
        buffer = self.undelivered
        fits = buffer is None or undelivered is None or undelivered.numel() == buffer.flat.numel()
        if not fits or len(state["known"]) != len(self._is_known):
            raise ConfigError(
                "thinwire: the saved state has other shapes than the parameters of this model"
            )
        if self.undelivered is not None:
            self.undelivered.flat.zero_()
            if undelivered is not None:
                self.undelivered.flat.copy_(undelivered)
        self._is_known = list(state["known"])

    def hand_over(self) -> None:
        """Lets the program's computation follow the copies of deliver()."""
        for queue in self._queues.values():
            queue.hand_over()

    def _missing_names(self) -> List[str]:
        names = zip(self._layout.names, self._bucket_of)
        return [name for name, bucket in names if self._missing[bucket] > 0]
