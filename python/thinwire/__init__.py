"""thinwire: train PyTorch models over slow networks.

``thinwire.torch`` has what a training program uses. This module has what it shares with other
programs: the errors, the version and the list of strategies.
"""

from __future__ import annotations

from thinwire import _errors
from thinwire._errors import *  # noqa: F403
from thinwire._library import strategies, transports, version

__version__ = version()

__all__ = ["strategies", "transports", "version"]
__all__ += _errors.__all__
