"""The parts of a strategy's spec, "name:key=value,key=value", that thinwire.torch reads."""

from __future__ import annotations

from typing import Dict

from thinwire import _library
from thinwire._errors import ConfigError


def keys_of(spec: str) -> Dict[str, str]:
    """Returns the keys that a spec gives."""
    pairs = (pair.partition("=") for pair in spec.partition(":")[2].split(",") if pair)
    return {key: value for key, _, value in pairs}


def keep_momentum(spec: str) -> str:
    """Returns the remedy for an optimizer whose momentum cannot move to the strategy."""
    name = spec.partition(":")[0]
    known = [strategy for strategy in _library.strategies() if strategy["name"] == name]
    if not any(key["name"] == "momentum" for strategy in known for key in strategy["keys"]):
        return "use an optimizer without momentum"
    kept = [f"{key}={value}" for key, value in keys_of(spec).items() if key != "momentum"]
    keys = ",".join([*kept, "momentum=plain"])
    return f"write '{name}:{keys}' to leave momentum to the optimizer"


def wants_momentum(spec: str) -> bool:
    """Returns whether the spec itself says that the strategy applies momentum."""
    return keys_of(spec).get("momentum") in ("corrected", "unmasked")


def check_strategy(spec: str, size: int, wanted: str, other: str) -> str:
    """Returns the sync mode of a strategy: "synchronous", "periodic" or "asynchronous".

    Raises ConfigError, before any rank waits for another one, if it cannot be used.
    wanted: "gradients" or "models"; other: the function for the other kind.
    """
    info = _library.strategy_info(strategy=spec, size=size)
    if info["exchanges"] != wanted:
        raise ConfigError(f"thinwire: '{spec}' exchanges {info['exchanges']}; use {other} for it")
    if info["serving_ranks"] > 0:
        raise ConfigError(
            f"thinwire: with '{spec}' {info['serving_ranks']} ranks would only serve the others, "
            "but every rank of a PyTorch program trains; leave out the key servers"
        )
    return str(info["sync_mode"])


def has_automatic_density(spec: str) -> bool:
    """Returns whether the density follows from the length of the run."""
    name = spec.partition(":")[0]
    return name in ("topk", "gtopk", "ps") and keys_of(spec).get("density", "auto") == "auto"


def check_steps_per_epoch(spec: str, steps_per_epoch: float) -> None:
    """Raises ConfigError if the strategy needs the length of an epoch and it is not known."""
    warmup = keys_of(spec).get("warmup", "auto")
    if warmup not in ("auto", "none") and steps_per_epoch <= 0:
        raise ConfigError(
            f"thinwire: warmup={warmup} of '{spec}' has one density per epoch, but the length of "
            "an epoch is unknown; pass steps_per_epoch= to attach()"
        )
