"""thinwire for PyTorch programs.

``attach(ddp_model, "gtopk", optimizer=optimizer, steps=total_steps)`` replaces the gradient
exchange of DistributedDataParallel. ``average(model, optimizer, "lasgd")`` is for the strategies
that exchange models; it needs no DistributedDataParallel. docs/pytorch.md explains both.
"""

from thinwire import _errors
from thinwire._errors import *  # noqa: F403
from thinwire.torch._average import AveragedOptimizer, ModelAverage, average
from thinwire.torch._exchange import GradientExchange, attach, reduce_gradients

__all__ = [
    "AveragedOptimizer",
    "GradientExchange",
    "ModelAverage",
    "attach",
    "average",
    "reduce_gradients",
]
__all__ += _errors.__all__
