"""Which module of a program is exchanged: wrappers are taken off, impossible ones are refused."""

from __future__ import annotations

from typing import Any, List

import torch
from torch.nn.parallel import DistributedDataParallel

from thinwire._errors import ConfigError

# By name: not every torch has these classes, and importing them takes time.
_SHARDED = ("FullyShardedDataParallel", "FSDPModule")


def without_compile(model: torch.nn.Module) -> torch.nn.Module:
    """Returns the model that torch.compile() wrapped, or the model itself."""
    while isinstance(getattr(model, "_orig_mod", None), torch.nn.Module):
        model = model._orig_mod  # type: ignore[assignment]
    return model


def refuse_wrapped(model: torch.nn.Module, call: str) -> None:
    """Raises ConfigError if a part of the model exchanges its gradients by itself.

    call: "attach()" or "average()", for the text.
    """
    for name, module in model.named_modules():
        if any(kind.__name__ in _SHARDED for kind in type(module).__mro__):
            raise ConfigError(
                f"thinwire: {call} cannot be used with FullyShardedDataParallel"
                f"{_place(name)}, whose ranks hold different parameters; use "
                "DistributedDataParallel"
            )
        if isinstance(module, DistributedDataParallel) and module is not model:
            remedy = (
                "pass the DistributedDataParallel model itself"
                if call == "attach()"
                else "do not use DistributedDataParallel"
            )
            raise ConfigError(
                f"thinwire: the model of {call} contains a DistributedDataParallel model"
                f"{_place(name)}, which exchanges its gradients by itself; {remedy}"
            )


def _place(name: str) -> str:
    return f" ({name})" if name else ""


class TrainedModel:
    """The model that attach() was given: its parameters, and how they are used."""

    def __init__(self, model: torch.nn.Module) -> None:
        model = without_compile(model)
        refuse_wrapped(model, "attach()")
        options: Any = model if isinstance(model, DistributedDataParallel) else None
        self.model = model
        self.is_ddp = options is not None
        self.module: torch.nn.Module = options.module if self.is_ddp else model
        self.ignored: Any = getattr(options, "parameters_to_ignore", ())
        self.process_group: Any = getattr(options, "process_group", None)
        # Every step uses the same parameters.
        self.is_static = bool(getattr(options, "static_graph", False))
        asks = bool(getattr(options, "find_unused_parameters", False))
        # A step may leave out parameters.
        self.finds_unused = not self.is_ddp or self.is_static or asks
        # At the end of a step DistributedDataParallel asks all ranks which ones they have used.
        self.ddp_waits = asks and not self.is_static


class Frozen:
    """The parameters of a model that are not exchanged because they were frozen.

    A program that unfreezes them later would train them on each rank alone.
    """

    def __init__(self, model: torch.nn.Module, ignored: Any, call: str) -> None:
        self._call = call
        self._names: List[str] = []
        self._parameters: List[torch.nn.Parameter] = []
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad and name not in ignored:
                self._names.append(name)
                self._parameters.append(parameter)

    def check(self) -> None:
        """Raises ConfigError if one of them requires a gradient now."""
        for name, parameter in zip(self._names, self._parameters):
            if parameter.requires_grad:
                raise ConfigError(
                    f"thinwire: parameter {name} was frozen when {self._call} was called, and "
                    f"requires a gradient now, which would not be exchanged; close() and call "
                    f"{self._call} again after unfreezing"
                )
