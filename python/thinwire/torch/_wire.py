"""The common part of attach() and average(): the group, the session, and how they end."""

from __future__ import annotations

import atexit
import contextlib
import math
import multiprocessing.util
import os
import sys
from typing import Any, Dict, Iterator, List, Optional, TypeVar

import torch

from thinwire import _group
from thinwire._errors import ConfigError, DeadlineError, Error, UsageError, WireError
from thinwire.torch import _join
from thinwire.torch._buffers import HostMemory, Layout
from thinwire.torch._options import JoinOptions

_Self = TypeVar("_Self", bound="Wire")

STATE_VERSION = 2
# How long, in seconds, a program that ends without close() waits for the other ranks. Then ranks
# that still need this one get an error.
EXIT_LIMIT = 10.0

# Until they are closed: the other ranks may still need this one when the program has dropped a
# model. All ranks close them in the same order, that of attach() and average().
_open_wires: "Dict[Wire, None]" = {}


class SmallMeans:
    """Means of a few numbers over all ranks, by a session of their own.

    All ranks call it at the same point, while no other session of the group has an exchange going
    on. It has the deadlines and the errors of the exchange, unlike torch's collectives.
    """

    def __init__(self, group: _group.Group, name: str, count: int) -> None:
        self._values = HostMemory(torch.zeros(count, dtype=torch.float32))
        tensors = [{"name": name, "shape": [count]}]
        self._session = _group.Session(group, strategy="dense", tensors=tensors)
        self._session.begin(self._values, 0)

    def __call__(self, values: List[float]) -> List[float]:
        self._values.tensor.copy_(torch.tensor(values, dtype=torch.float32))
        self._session.submit(0, None, self._values)
        self._session.wait()
        self._session.finish_step(None, 0, 0.0)
        return list(self._values.tensor.tolist())

    def close(self) -> None:
        self._session.close()


class Wire:
    """A model that is synchronized by a strategy. A context manager; see close()."""

    def __init__(self, layout: Layout, spec: str, join: JoinOptions) -> None:
        self.spec = spec
        self._gathering: Optional[SmallMeans] = None
        self._layout = layout
        self._process = os.getpid()
        self._session: Optional[_group.Session] = None
        self._is_between_steps = True
        self._steps_taken = 0
        self._first_step = 0  # the number of the first step since the last begin of a session
        self._timeout = join.timeout
        self.blocked_seconds = 0.0  # the time for which the program waited for the exchange
        self._group = _join.join_group(join)
        self.rank, self.size = self._group.rank, self._group.size
        _open_wires[self] = None
        _close_all_at_exit()

    def _open_session(self, **options: Any) -> _group.Session:
        # One rank alone exchanges nothing; its session only counts steps.
        alone = [{"name": "parameters", "shape": [1]}]
        tensors = alone if self.size == 1 else self._layout.tensors()
        return _group.Session(self._group, strategy=self.spec, tensors=tensors, **options)

    def _require_session(self) -> _group.Session:
        if self._process != os.getpid():
            raise UsageError(
                "thinwire: used in a process that was forked after attach() or average(), such as "
                "a worker of a DataLoader"
            )
        if self._session is None:
            raise UsageError("thinwire: the exchange is closed")
        return self._session

    def _copy_wide_parameters(self) -> None:
        """Copies the float64 parameters of rank 0 to all ranks; buffers would round them."""
        wide = [p.detach() for p in self._layout.parameters if p.dtype == torch.float64]
        if not wide or self.size == 1:
            return
        bits = torch.cat([p.to("cpu").reshape(-1) for p in wide]).view(torch.float32)
        tensors = [{"name": "float64 parameters", "shape": [bits.numel()]}]
        session = _group.Session(self._group, strategy="dense", tensors=tensors)
        session.begin(HostMemory(bits), 0)  # copies bytes, whatever they mean
        session.close()
        values = bits.view(torch.float64).split([p.numel() for p in wide])
        for parameter, value in zip(wide, values):
            parameter.copy_(value.view(parameter.shape))

    def stats(self, all_ranks: bool = False) -> Dict[str, Any]:
        """Returns bytes, seconds and metrics of this rank so far.

        ``blocked_seconds`` is the time for which the program waited for the exchange. With
        ``all_ranks`` all ranks must call it together; then ``metrics`` has the metrics of the
        strategy over all ranks, and ``blocked_seconds_of_ranks`` the time of each: the others wait
        for the rank that waits least.
        """
        session = self._require_session()
        if not all_ranks:
            return {**session.stats(), "blocked_seconds": self.blocked_seconds}
        with self._aborting():
            session.sum_metrics()
            everyone = self._gather_number(self.blocked_seconds)
        own = {"blocked_seconds": self.blocked_seconds, "blocked_seconds_of_ranks": everyone}
        return {**session.stats(), **own}

    @contextlib.contextmanager
    def _aborting(self) -> Iterator[None]:
        """Ends the exchange if this rank leaves others alone in an operation of all ranks."""
        try:
            yield
        except UsageError:
            raise  # nothing was started
        except BaseException as error:
            self.abort(f"rank {self.rank} {describe(error)}")
            raise

    def _gather_number(self, value: float) -> List[float]:
        """Returns the values of all ranks; all ranks call it together, between two steps.

        The caller aborts if it fails.
        """
        if self._gathering is None:  # kept: a group has a limited number of sessions
            self._gathering = SmallMeans(self._group, "a number of each rank", self.size)
        own = [value * self.size if rank == self.rank else 0.0 for rank in range(self.size)]
        return self._gathering(own)

    def _saved_state(self) -> Dict[str, Any]:
        session = self._require_session()
        state = torch.empty(session.saved_bytes(), dtype=torch.uint8)
        session.save(state.data_ptr(), state.numel())
        return {
            "version": STATE_VERSION,
            "spec": self.spec,
            "rank": self.rank,
            "size": self.size,
            "names": list(self._layout.names),
            "step": self._steps_taken,
            "state": state,
        }

    def _check_state(self, state: Dict[str, Any]) -> torch.Tensor:
        if not isinstance(state, dict) or state.get("version") != STATE_VERSION:
            raise WireError("thinwire: this is no state that state_dict() of this version returned")
        own = {
            "spec": self.spec,
            "rank": self.rank,
            "size": self.size,
            "names": list(self._layout.names),
        }
        for name, value in own.items():
            if state.get(name) != value:
                differs = f"{name} is {state.get(name)!r} there and {value!r} here"
                raise ConfigError(
                    "thinwire: the saved state is of another exchange "
                    f"({'other parameters' if name == 'names' else differs}); every rank loads "
                    "the state that it saved, with the same strategy and number of ranks"
                )
        saved: torch.Tensor = state["state"].to("cpu", torch.uint8).contiguous()
        return saved

    def close(self) -> None:
        """Ends the exchange; all ranks call it. Called at the exit of the interpreter, too.

        Raises DeadlineError if the other ranks do not call it within ``timeout`` seconds.
        """
        waited = f"rank {self.rank} waited {self._timeout:g} s in close() for the other ranks"
        self._close(math.inf, self._timeout, waited)

    def _close_at_exit(self) -> None:
        try:
            self._close(EXIT_LIMIT, EXIT_LIMIT, "its program ended without close()")
        except DeadlineError:
            pass  # the other ranks get an error if they still need this one

    def _close(self, end_limit: float, leave_limit: float, reason: str) -> None:
        """Ends the session and leaves the group, each within a limit in seconds.

        A finite end_limit means that the program ends. The reason is that of a limit's errors.
        """
        if not self._group.is_open:
            return
        if not self._is_between_steps:
            return self.abort(f"rank {self.rank} gave up in the middle of a step")
        if self._steps_taken == self._first_step:
            _group.log.warning(
                "thinwire: the exchange of '%s' is closed without a single step; %s",
                self.spec,
                self._why_no_step(),
            )
        session, self._session = self._session, None
        try:
            if session is not None:
                self._end(session, end_limit, reason)
                session.close()
            self._close_sessions()
            self._group.leave(leave_limit, reason)
            self._on_closed()
        finally:
            self._group.close()
            self._forget()

    def abort(self, reason: str) -> None:
        """Ends the exchange because of a failure, of which all other ranks are informed."""
        if not self._group.is_open:
            return
        self._session = None
        try:
            self._group.abort(reason)
        finally:
            self._forget()

    def _give_up(self, error: BaseException) -> None:
        """Ends the exchange after attach() or average() has failed."""
        if isinstance(error, ConfigError) and error.fields.get("remedy") == "match_options":
            # All ranks have found that they differ. Each waits until the others know it, too.
            session, self._session = self._session, None
            try:
                if session is not None:
                    session.close()
                self._close_sessions()
                self._group.leave(self._timeout, f"rank {self.rank} {describe(error)}")
            except Error:
                pass  # `error` is the cause
            finally:
                self._forget()
        else:
            self.abort(f"rank {self.rank} {describe(error)}")

    def _end(self, session: _group.Session, limit: float, reason: str) -> None:
        """Ends the run of the session. A finite limit means that the program ends."""
        raise NotImplementedError

    def _why_no_step(self) -> str:
        """Returns the likely mistakes of a program that never exchanged anything."""
        raise NotImplementedError

    def _close_sessions(self) -> None:
        """Closes the further sessions of the group."""
        if self._gathering is not None:
            self._gathering.close()

    def _forget(self) -> None:
        _open_wires.pop(self, None)
        self._restore()

    def _on_closed(self) -> None:
        """Called after a close() without an error."""

    def _restore(self) -> None:
        """Gives the optimizer back what was changed in it."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None or is_success(error):
            self.close()
        else:
            self.abort(f"rank {self.rank} {describe(error)}")


def is_success(error: BaseException) -> bool:
    """Returns whether it is the SystemExit of a program that ends without a failure."""
    return isinstance(error, SystemExit) and error.code in (None, 0, False)


def describe(error: BaseException) -> str:
    """Returns how a rank failed, for the other ranks: "failed with ValueError: the text"."""
    if isinstance(error, SystemExit):
        # torch.multiprocessing prints the exception of its function and calls sys.exit(1).
        cause = error.__cause__ or error.__context__
        ended = f"ended with exit code {error.code}"
        return ended if cause is None else f"{ended} after {type(cause).__name__}: {cause}"
    return f"failed with {type(error).__name__}: {error}"


def _close_all() -> None:
    # In a process of multiprocessing, the exception is still going on. In a program of its own,
    # Python has shown it; it does not tell about SystemExit.
    failure = sys.exc_info()[1] or getattr(sys, "last_value", None)
    for wire in list(_open_wires):
        try:
            if failure is None or is_success(failure):
                wire._close_at_exit()
            else:
                wire.abort(f"rank {wire.rank} {describe(failure)}")
        except Exception as error:  # the other exchanges must be closed, too
            _group.log.warning("%s", error)


def _close_all_at_exit() -> None:
    """Called once in each process that has an exchange.

    Processes of multiprocessing do not call atexit's functions, or only after they have forgotten
    the exception that ends them. They call Finalize's, which forked ones forget.
    """
    global _registered_in
    if _registered_in != os.getpid():
        _registered_in = os.getpid()
        multiprocessing.util.Finalize(None, _close_all, exitpriority=100)


_registered_in = 0
atexit.register(_close_all)
