"""What every rank does in the tests of thinwire.torch. Each case raises if something is wrong."""

from __future__ import annotations

from typing import Callable, Dict

from cases import averaging, ddp, joining, models, optimizers, precision
from cases import states, strategies, unused, updates

_FIRST = (strategies, averaging, ddp, joining, models)
_MODULES = (*_FIRST, unused, updates, precision, optimizers, states)
ALL: Dict[str, Callable[[int, int], None]] = {
    name[len("case_") :]: case
    for module in _MODULES
    for name, case in vars(module).items()
    if name.startswith("case_")
}

# On one rank alone.
ALONE: Dict[str, Callable[[int, int], None]] = {case.__name__: case for case in updates.ALONE}
