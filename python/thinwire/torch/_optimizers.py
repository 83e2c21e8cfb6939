"""Optimizers of other libraries, and a step() that is replaced for some time."""

from __future__ import annotations

import inspect
import types
from typing import Any, Callable, Optional, TypeVar

import torch

from thinwire._errors import ConfigError

_Wrapped = TypeVar("_Wrapped")

# By these marks of step(), learning-rate schedules of torch recognize that they count its calls.
_COUNTED = ("_with_counter", "_wrapped_by_lr_sched")
# An optimizer with this mark is called by a GradScaler in every step, also if it should skip one.
_SUPPORTS_SCALING = "_step_supports_amp_scaling"


def unwrapped(optimizer: _Wrapped) -> _Wrapped:
    """Returns the optimizer of torch inside of those of Lightning and accelerate, or itself."""
    while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer  # type: ignore[attr-defined]
    return optimizer


def is_enabled(scaler: Optional[Any]) -> bool:
    """Returns whether a GradScaler scales and may skip steps; a disabled one does neither."""
    asked = getattr(scaler, "is_enabled", None)
    return scaler is not None and (asked is None or bool(asked()))


def refuse_steps_that_cannot_be_averaged(wrapper: Any, optimizer: torch.optim.Optimizer) -> None:
    """Raises ConfigError if average() cannot replace step() of this optimizer.

    wrapper: the optimizer that the program uses, which may be one of another library.
    """
    name = type(optimizer).__name__
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ConfigError(
            f"thinwire: step() of {name} computes the loss several times, in a closure, so that "
            "average() cannot exchange models in it; use another optimizer, or attach() with a "
            "plain model"
        )
    if wrapper is not optimizer and is_enabled(getattr(wrapper, "scaler", None)):
        raise ConfigError(
            f"thinwire: {type(wrapper).__name__} with a GradScaler keeps the step() that "
            f"{name} had before average(); use bfloat16, or a GradScaler of your own with "
            "scaler.step(optimizer.optimizer)"
        )


class ReplacedStep:
    """Replaces step() of an optimizer, until restore().

    ``own`` is the step() of before. A GradScaler calls the new one in every step, with gradients
    without its factor, which are not finite if it would have skipped the step.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, step: Callable[[Any], Any], is_active: Any
    ) -> None:
        self._optimizer = optimizer
        self._before = vars(optimizer).get("step")  # for example that of a learning-rate schedule
        self._supports_scaling = vars(optimizer).get(_SUPPORTS_SCALING)
        self.own = own = optimizer.step

        def replaced(
            optimizer: torch.optim.Optimizer, closure: Any = None, **scaling: Any
        ) -> Any:
            # A schedule that was made meanwhile keeps this function after restore().
            if not is_active():
                return own(closure, **scaling)
            _unscale(optimizer, **scaling)
            return step(closure)

        for mark in _COUNTED:
            if hasattr(own, mark):
                setattr(replaced, mark, True)
        self._replaced = types.MethodType(replaced, optimizer)
        optimizer.step = self._replaced  # type: ignore[method-assign]
        setattr(optimizer, _SUPPORTS_SCALING, True)

    def restore(self) -> None:
        optimizer = self._optimizer
        if vars(optimizer).get("step") is self._replaced:
            del optimizer.step
            if self._before is not None:
                optimizer.step = self._before  # type: ignore[method-assign]
        delattr(optimizer, _SUPPORTS_SCALING)
        if self._supports_scaling is not None:
            setattr(optimizer, _SUPPORTS_SCALING, self._supports_scaling)


def _unscale(optimizer: torch.optim.Optimizer, grad_scaler: Optional[Any] = None) -> None:
    """Divides the gradients by the factor of a GradScaler that calls step(), once."""
    if grad_scaler is not None:  # before torch 2.0
        state = grad_scaler._per_optimizer_states[id(optimizer)]
        if state["stage"].name == "READY":
            grad_scaler.unscale_(optimizer)
        return
    scale: Any = getattr(optimizer, "grad_scale", None)
    for group in optimizer.param_groups if scale is not None else []:
        for parameter in group["params"]:
            if parameter.grad is not None:
                parameter.grad.div_(scale.to(parameter.grad.device))
    for name in ("grad_scale", "found_inf"):  # step() of the optimizer must not use them again
        if hasattr(optimizer, name):
            setattr(optimizer, name, None)
