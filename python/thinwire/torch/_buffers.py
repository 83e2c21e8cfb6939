"""Flat float32 buffers in host memory, in which the tensors of a model follow each other.

The same code serves every device and dtype: tensors are copied into the buffers and back. For a GPU
the buffers are pinned, so that copies run next to computation.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional

import torch

from thinwire._errors import ConfigError


class HostMemory:
    """The memory of a contiguous tensor on the CPU, for an operation of a session."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.address = tensor.data_ptr()
        self.numel = tensor.numel()


class Layout:
    """The parameters that are trained, last one first: backward computes gradients in that order.

    A parameter keeps its position for the whole run, whatever buckets DistributedDataParallel
    forms, so that residuals and velocities stay with their parameter.
    """

    def __init__(self, model: torch.nn.Module, ignored: Iterable[str] = ()) -> None:
        named = [
            (name, parameter)
            for name, parameter in model.named_parameters()
            if parameter.requires_grad and name not in ignored
        ]
        if not named:
            raise ConfigError("thinwire: the model has no parameter that requires a gradient")
        named.reverse()
        self.names = [name for name, _ in named]
        self.parameters: List[torch.nn.Parameter] = [parameter for _, parameter in named]
        self.offsets: List[int] = []
        self.numel = 0
        for name, parameter in named:
            if not parameter.is_floating_point():
                raise ConfigError(
                    f"thinwire: parameter {name} is {parameter.dtype}; only real floating-point "
                    "parameters can be synchronized"
                )
            self.offsets.append(self.numel)
            self.numel += parameter.numel()
        self._index = {id(parameter): i for i, parameter in enumerate(self.parameters)}

    def index_of(self, parameter: torch.Tensor) -> int:
        index = self._index.get(id(parameter))
        if index is not None:
            return index
        for index, known in enumerate(self.parameters):  # another Python object for the same tensor
            if known.data_ptr() == parameter.data_ptr() and known.shape == parameter.shape:
                return index
        raise ConfigError(
            "thinwire: the model has a parameter that it did not have when thinwire was attached"
        )

    def tensors(self) -> List[Dict[str, Any]]:
        """Returns the tensors as tw_session_open() wants them."""
        return [
            {"name": name, "shape": list(parameter.shape)}
            for name, parameter in zip(self.names, self.parameters)
        ]

    def like_parameter(self, index: int, gradient: torch.Tensor) -> torch.Tensor:
        """Returns a gradient of a bucket with the strides in which the bucket stores it.

        DistributedDataParallel stores elements in the order of the parameter's memory, but
        GradBucket.gradients() shows them as if it were contiguous; they differ for channels_last.
        """
        parameter = self.parameters[index]
        if parameter.is_contiguous() or gradient.numel() == 0:
            return gradient
        pairs = zip(parameter.size(), parameter.stride())
        is_dense = 1 + sum((size - 1) * stride for size, stride in pairs) == parameter.numel()
        if not is_dense:
            return gradient
        return gradient.as_strided(
            parameter.size(), parameter.stride(), gradient.storage_offset()
        )

    def buffer(self) -> "Buffer":
        return Buffer(self)


class Buffer:
    """One float32 value per trained element; ``views[i]`` has the shape of parameter i."""

    def __init__(self, layout: Layout) -> None:
        pinned = any(parameter.device.type == "cuda" for parameter in layout.parameters)
        self.flat = torch.zeros(layout.numel, dtype=torch.float32, pin_memory=pinned)
        self.views = [
            self.flat[offset : offset + parameter.numel()].view(parameter.shape)
            for offset, parameter in zip(layout.offsets, layout.parameters)
        ]
        self.address = self.flat.data_ptr()
        self.numel = layout.numel

    def holds(self, index: int, tensor: torch.Tensor) -> bool:
        """Returns whether the memory of the tensor is its part of the buffer."""
        view = self.views[index]
        return (
            tensor.data_ptr() == view.data_ptr()
            and tensor.dtype == view.dtype
            and tensor.device == view.device
            and tensor.is_contiguous()
        )

    def can_hold(self, tensor: torch.Tensor) -> bool:
        """Returns whether the tensor could be a part of the buffer instead of memory of its own."""
        return (
            type(tensor) in (torch.Tensor, torch.nn.Parameter)
            and tensor.layout == torch.strided
            and tensor.dtype == self.flat.dtype
            and tensor.device == self.flat.device
            and tensor.is_contiguous()
        )

    def gather(self, tensors: List[Optional[torch.Tensor]]) -> None:
        """Copies all tensors into the buffer that are not there; None counts as zeros."""
        for index, (view, tensor) in enumerate(zip(self.views, tensors)):
            if tensor is None:
                view.zero_()
            elif not self.holds(index, tensor):
                view.copy_(tensor)

    def scatter(self, tensors: List[Optional[torch.Tensor]]) -> None:
        """Copies the buffer into all tensors that are not None and not there."""
        for index, (view, tensor) in enumerate(zip(self.views, tensors)):
            if tensor is not None and not self.holds(index, tensor):
                tensor.copy_(view)
