"""Copies between a device and host memory, next to the computation on the device.

Every device has one CopyQueue. On a device with streams, such as "cuda", copies run on a stream of
their own, which waits for what the program's stream has computed so far. Without streams, such as
on the CPU, a copy is complete when the call returns.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List

import torch


class CopyQueue:
    """The copies from and to one device, which are executed in the order of the calls."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        module = None if device.type == "cpu" else getattr(torch, device.type, None)
        needed = ("Stream", "Event", "stream", "current_stream")
        self._module: Any = module if all(hasattr(module, name) for name in needed) else None
        self._stream = self._module.Stream(device=device) if self._module is not None else None

    @property
    def is_asynchronous(self) -> bool:
        return self._stream is not None

    @contextlib.contextmanager
    def after_computation(self) -> Iterator[None]:
        """Work in this context runs on the queue, after what the program has started so far."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(self._module.current_stream(self._device))
        with self._module.stream(self._stream):
            yield

    def hand_over(self) -> None:
        """Lets what the program starts from now on run after the work of the queue."""
        if self._stream is not None:
            self._module.current_stream(self._device).wait_stream(self._stream)

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the tensor. Its memory is not used again before the queue is done with it."""
        if self._stream is not None:
            tensor.record_stream(self._stream)
        return tensor

    def record(self) -> List[Any]:
        """Returns the event that all work of the queue so far is complete, if it may not be."""
        if self._stream is None:
            return []
        event = self._module.Event()
        event.record(self._stream)
        return [event]
