"""thinwire for PyTorch programs.

``attach(ddp_model, "gtopk", optimizer=optimizer, steps=total_steps)`` replaces the gradient
exchange of DistributedDataParallel. ``average(model, optimizer, "lasgd")`` is for the strategies
that exchange models; it needs no DistributedDataParallel. docs/pytorch.md explains both.
"""

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
from thinwire.torch._average import AveragedOptimizer, ModelAverage, average
from thinwire.torch._exchange import GradientExchange, attach, reduce_gradients

__all__ = [
    "AveragedOptimizer",
    "ConfigError",
    "DeadlineError",
    "Error",
    "GradientExchange",
    "JoinError",
    "LostError",
    "ModelAverage",
    "TransportError",
    "UsageError",
    "WireError",
    "attach",
    "average",
    "reduce_gradients",
]
