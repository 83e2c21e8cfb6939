"""Momentum and weight decay that a strategy applies instead of the optimizer.

Sparse strategies apply momentum before they select entries. Then the optimizer must not apply it
again: its settings move to the strategy, and come back when the exchange is closed.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, Iterable, List, Optional

import torch

from thinwire import _library
from thinwire._errors import ConfigError
from thinwire._group import log
from thinwire.torch import _specs

# The settings of a parameter group before they were moved. It is kept in the group, because a
# checkpoint of the optimizer contains its groups.
SAVED = "thinwire_moved"
MOVED = ("momentum", "weight_decay", "nesterov")

# The optimizers whose settings an open exchange has moved.
_held: "weakref.WeakKeyDictionary[torch.optim.Optimizer, MovedSettings]" = (
    weakref.WeakKeyDictionary()
)


def settings_of(optimizer: torch.optim.Optimizer) -> Dict[str, Any]:
    """Returns momentum, weight decay and nesterov; of groups that differ, the largest.

    The momentum of Adam and its relatives is beta1.
    """
    momentum, decay, nesterov = 0.0, 0.0, False
    for group in optimizer.param_groups:
        own = float(group.get("momentum", 0.0) or 0.0)
        if "betas" in group:
            own = max(own, float(group["betas"][0]))
        momentum = max(momentum, own)
        decay = max(decay, float(group.get("weight_decay", 0.0) or 0.0))
        nesterov = nesterov or bool(group.get("nesterov", False))
    return {"momentum": min(momentum, 1.0), "weight_decay": decay, "nesterov": nesterov}


def give_back(optimizer: torch.optim.Optimizer) -> None:
    """Undoes a move, for example one that a checkpoint of the optimizer contains."""
    if optimizer not in _held:
        for group in optimizer.param_groups:
            group.update(group.pop(SAVED, {}))


class MovedSettings:
    """The settings of SGD that are moved to the strategy, from move() to restore().

    Raises ConfigError, and changes nothing, if the strategy would move them and they cannot be
    moved.
    """

    def __init__(
        self,
        optimizer: Optional[torch.optim.Optimizer],
        spec: str,
        size: int,
        parameters: Iterable[torch.Tensor],
    ) -> None:
        self.momentum = 0.0
        self.nesterov = False
        self._weight_decay: Dict[int, float] = {}  # by the id of a parameter
        self._optimizer: Optional[torch.optim.Optimizer] = optimizer
        self._settings: List[Dict[str, Any]] = []  # of each group, before they are moved
        self._zeroed: List[str] = []  # the settings of each group that are 0 meanwhile
        if optimizer is None:
            if _specs.wants_momentum(spec) and size > 1:
                raise ConfigError(
                    f"thinwire: '{spec}' applies momentum before the exchange, but knows none; "
                    "pass the optimizer to attach(), whose momentum it takes over"
                )
            return
        name = type(optimizer).__name__
        if optimizer in _held:
            raise ConfigError(
                f"thinwire: another exchange applies the momentum of this {name}; use one "
                "optimizer for each model, or close() the other exchange first"
            )
        if not isinstance(optimizer, torch.optim.SGD):
            _refuse_wanted_momentum(spec, name)
            return
        self._prepare(optimizer, spec, size, parameters)

    def _prepare(
        self, optimizer: torch.optim.SGD, spec: str, size: int, parameters: Iterable[torch.Tensor]
    ) -> None:
        """Finds out which settings move. Raises ConfigError if they cannot."""
        name = type(optimizer).__name__
        groups = optimizer.param_groups
        # A checkpoint that was saved meanwhile has the settings below SAVED.
        self._settings = [{key: {**g, **g.get(SAVED, {})}[key] for key in MOVED} for g in groups]
        first = self._settings[0]
        decay = max(setting["weight_decay"] for setting in self._settings)
        left = _library.strategy_info(
            strategy=spec,
            size=size,
            momentum=first["momentum"],
            weight_decay=decay,
            nesterov=first["nesterov"],
        )
        moves_momentum = first["momentum"] != 0 and left["momentum"] == 0
        moves_decay = decay != 0 and left["weight_decay"] == 0
        if not (moves_momentum or moves_decay):
            return
        _check_movable(groups, self._settings, spec, name, moves_momentum)
        _check_parameters(groups, parameters, spec, name)
        if moves_momentum:
            self._zeroed += ["momentum", "nesterov"]
            self.momentum, self.nesterov = first["momentum"], first["nesterov"]
        if moves_decay:
            self._zeroed.append("weight_decay")
            for group, setting in zip(groups, self._settings):
                for parameter in group["params"]:
                    self._weight_decay[id(parameter)] = setting["weight_decay"]

    def move(self) -> None:
        """Takes the settings away from the optimizer, when nothing can fail anymore."""
        optimizer = self._optimizer
        if optimizer is None:
            return
        give_back(optimizer)
        if not self._zeroed:
            return
        for group, setting in zip(optimizer.param_groups, self._settings):
            group[SAVED] = setting
            for key in self._zeroed:
                group[key] = type(group[key])(0)
        if self._clear_velocity(optimizer):
            log.warning(
                "thinwire: the strategy applies the momentum of %s from now on, and begins with "
                "velocity 0; attach before the first step to avoid this",
                type(optimizer).__name__,
            )
        _held[optimizer] = self

    def _clear_velocity(self, optimizer: torch.optim.Optimizer) -> bool:
        """Forgets the optimizer's velocity, which would be old when it applies momentum again.

        Returns whether there was one.
        """
        found = False
        for state in optimizer.state.values() if "momentum" in self._zeroed else []:
            found = state.pop("momentum_buffer", None) is not None or found
        return found

    def weight_decay_of(self, parameter: torch.Tensor) -> float:
        """Returns the weight decay that is added to the gradient before the exchange."""
        return self._weight_decay.get(id(parameter), 0.0)

    def _is_moved(self) -> bool:
        return self._optimizer is not None and _held.get(self._optimizer) is self

    def check(self) -> None:
        """Raises ConfigError if something has given the optimizer its settings back."""
        if not self._is_moved():
            return
        for group in self._optimizer.param_groups:  # type: ignore[union-attr]
            for key in self._zeroed:
                if group[key]:
                    raise ConfigError(
                        f"thinwire: {key} ({group[key]}) of {type(self._optimizer).__name__} would "
                        "be applied twice, because the strategy applies it, too; load the state of "
                        "an optimizer before attach(), and give OneCycleLR or CyclicLR "
                        "cycle_momentum=False"
                    )

    def restore(self) -> None:
        """Gives the optimizer its settings back. Its velocity begins at 0."""
        if self._is_moved():
            optimizer, self._optimizer = self._optimizer, None
            del _held[optimizer]  # type: ignore[arg-type]
            give_back(optimizer)  # type: ignore[arg-type]
            self._clear_velocity(optimizer)  # type: ignore[arg-type]


def _check_parameters(
    groups: List[Dict[str, Any]], parameters: Iterable[torch.Tensor], spec: str, name: str
) -> None:
    attached = {id(parameter) for parameter in parameters}
    for group in groups:
        for parameter in group["params"]:
            if parameter.requires_grad and id(parameter) not in attached:
                raise ConfigError(
                    f"thinwire: {name} also has parameters that are not in this model; '{spec}' "
                    "would take their momentum away; use one optimizer for each model, or "
                    f"{_specs.keep_momentum(spec)}"
                )


def _check_movable(
    groups: List[Dict[str, Any]],
    settings: List[Dict[str, Any]],
    spec: str,
    name: str,
    moves_momentum: bool,
) -> None:
    remedy = _specs.keep_momentum(spec)
    for setting in settings if moves_momentum else []:
        if any(setting[key] != settings[0][key] for key in ("momentum", "nesterov")):
            raise ConfigError(
                f"thinwire: '{spec}' applies momentum before the exchange, but the parameter "
                f"groups of {name} have different momentum; {remedy}"
            )
    for group in groups:
        if moves_momentum and group["dampening"]:
            raise ConfigError(
                f"thinwire: '{spec}' applies momentum before the exchange, without the dampening "
                f"({group['dampening']}) of {name}; {remedy}"
            )
        if group.get("maximize"):
            raise ConfigError(
                f"thinwire: '{spec}' applies momentum and weight decay before the exchange, and "
                f"does not know maximize=True of {name}; use the negative loss instead"
            )


def _refuse_wanted_momentum(spec: str, name: str) -> None:
    if _specs.wants_momentum(spec):
        raise ConfigError(
            f"thinwire: '{spec}' applies momentum before the exchange, and {name} would apply its "
            f"own after it; use torch.optim.SGD, or {_specs.keep_momentum(spec)}"
        )
