"""thinwire: train PyTorch models over slow networks.

``thinwire.torch`` has what a training program uses. This module has what it shares with other
programs: the errors, the version and the list of strategies.
"""

from __future__ import annotations

from thinwire._errors import (
    ConfigError,
    DeadlineError,
    Error,
    JoinError,
    LostError,
    TransportError,
    UsageError,
    WireError,
)
from thinwire._library import strategies, transports, version

__version__ = version()

__all__ = [
    "ConfigError",
    "DeadlineError",
    "Error",
    "JoinError",
    "LostError",
    "TransportError",
    "UsageError",
    "WireError",
    "strategies",
    "transports",
    "version",
]
