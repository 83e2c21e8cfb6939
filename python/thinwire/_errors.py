"""The errors of thinwire. Each has the facts of the failure in ``fields``."""

from __future__ import annotations

from typing import Any, Dict, Optional, Type

__all__ = [
    "ConfigError",
    "DeadlineError",
    "Error",
    "JoinError",
    "LostError",
    "TransportError",
    "UsageError",
    "WireError",
]


class Error(RuntimeError):
    """The run failed by itself, for example because it diverged. Base of all errors.

    ``fields`` has the facts: kind, rank, peer (the rank to blame), host, operation, bytes_done,
    bytes_total, seconds, remedy. Facts that are unknown are None.
    """

    def __init__(self, text: str, fields: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(text)
        self.fields: Dict[str, Any] = fields or {}


class ConfigError(Error, ValueError):
    """The program asked for something impossible, or ranks have different options."""


class UsageError(Error):
    """A call with an invalid argument, out of order, or on a closed object."""


class WireError(Error):
    """A message or a saved state is damaged or of another version."""


class TransportError(Error):
    """A peer or the network failed."""


class JoinError(TransportError):
    """The group never came together."""


class DeadlineError(TransportError):
    """A peer was silent for longer than the timeout."""


class LostError(TransportError):
    """A peer died or failed."""


# tw_status of thinwire_c.h.
OK, PENDING, USAGE = 0, 1, 2
BY_STATUS: Dict[int, Type[Error]] = {
    USAGE: UsageError,
    3: ConfigError,
    4: WireError,
    5: JoinError,
    6: DeadlineError,
    7: LostError,
}
