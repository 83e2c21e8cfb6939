"""The communication hook of DistributedDataParallel."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from thinwire._errors import ConfigError

if TYPE_CHECKING:
    from thinwire.torch._exchange import GradientExchange


class HookState:
    """The state of a registered hook. A model keeps its hook for ever, its exchange may change."""

    exchange: Optional["GradientExchange"] = None
    process_group: Optional[Any] = None


_states: "weakref.WeakKeyDictionary[torch.nn.Module, HookState]" = weakref.WeakKeyDictionary()


def register_hook(model: Any) -> HookState:
    """Returns the state of the model's hook, which an exchange enters to get the gradients.

    While it has no exchange, the model trains as it would without a hook.
    """
    state = _states.get(model)
    if state is None:
        state = HookState()
        state.process_group = model.process_group
        try:
            model.register_comm_hook(state, _hook)
        except (RuntimeError, TypeError, ValueError) as error:
            raise ConfigError(
                "thinwire: DistributedDataParallel accepts no communication hook "
                f"({str(error).splitlines()[0]}); register no hook of your own, and do not use its "
                "mixed_precision; torch.autocast works"
            ) from error
        _states[model] = state
    return state


# DistributedDataParallel wants a plain function whose second parameter is called bucket.
def _hook(state, bucket):  # type: ignore[no-untyped-def]
    if state.exchange is None:  # after close(): what DistributedDataParallel does without a hook
        return allreduce_hook(state.process_group, bucket)
    return state.exchange.on_bucket(bucket)


def after_backward(action: Callable[[], None]) -> bool:
    """Called in a hook: executes an action when backward() has written the gradients.

    DistributedDataParallel writes them in a callback of its own, which it queues after the hook
    of the last bucket; so the action is queued by the callback before that one. An exception of
    the action becomes that of backward().

    Returns False, and executes nothing, if the hook was not called in backward(): join() calls it
    for a rank without data, which has no step.
    """
    engine = torch.autograd.Variable._execution_engine  # type: ignore[attr-defined]
    try:
        engine.queue_callback(lambda: engine.queue_callback(action))
    except RuntimeError:
        return False
    return True
