"""The arguments that attach() and average() have in common, and their checks.

A wrong number is refused by the name of its argument, before any rank waits for another one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, Optional

from thinwire._errors import ConfigError

# The time in seconds for which ranks wait for a silent one by default. It is longer than the work
# that one rank usually does while the others wait, such as the evaluation of a model by rank 0.
TIMEOUT = 300.0
JOIN_TIMEOUT = 60.0

_WHOLE = ("steps", "samples", "samples_per_step", "warmup_steps", "seed", "buckets")


@dataclasses.dataclass(frozen=True)
class JoinOptions:
    """How the ranks form a group; see attach()."""

    process_group: Optional[Any]
    timeout: float
    join_timeout: float
    network: Optional[str]

    def __post_init__(self) -> None:
        for name in ("timeout", "join_timeout"):
            if number(name, getattr(self, name)) <= 0:
                raise ConfigError(f"thinwire: {name} must be a positive number of seconds")


def number(name: str, value: Any) -> Any:
    """Returns the value of an argument as a number that is finite and not negative."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = None
    if found is None or isinstance(value, str):
        raise ConfigError(f"thinwire: {name} is no number ({value!r})")
    is_whole = math.isfinite(found) and found == int(found)
    if not math.isfinite(found) or found < 0 or (name in _WHOLE and not is_whole):
        kind = "whole number" if name in _WHOLE else "number"
        raise ConfigError(
            f"thinwire: {name} is no {kind} that is finite and at least 0 ({value!r}); pass 0 or "
            "leave it out if it is unknown"
        )
    return int(value) if name in _WHOLE else found


def run_options(*, steps: Any, **others: Any) -> Dict[str, Any]:
    """Returns the options of a session that say how long a run is, after their check.

    steps may be infinite, which Lightning says of a run without an end: then it is unknown.
    """
    is_endless = isinstance(steps, float) and steps == math.inf
    checked = {name: number(name, value) for name, value in others.items()}
    return {"steps": 0 if is_endless else number("steps", steps), **checked}
