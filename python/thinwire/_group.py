"""A rank's membership in a group of processes."""

from __future__ import annotations

import ctypes
import json
import logging
import math
import os
import time
from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple

from thinwire import _library
from thinwire._errors import PENDING, DeadlineError, Error, UsageError

log = logging.getLogger("thinwire")
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


class Memory(Protocol):
    """Memory of float32 values, which stays where it is while the object lives."""

    address: int
    numel: int


def _to_json(options: Dict[str, Any]) -> bytes:
    return json.dumps(options, allow_nan=False).encode()


def listen(host: str) -> Tuple[int, int]:
    """Opens a listening socket at a free port; returns the port and the descriptor."""
    port, descriptor = ctypes.c_uint16(0), ctypes.c_int(-1)
    _library.status("tw_listen", host.encode(), ctypes.byref(port), ctypes.byref(descriptor))
    return port.value, descriptor.value


class Group:
    """Joins when it is made, and returns when all ranks have joined. Raises JoinError.

    It takes over ``master_socket``, the descriptor of listen(), also if it fails.
    """

    def __init__(self, **options: Any) -> None:
        self._process = os.getpid()
        self._handle = 0
        self._sessions: Dict[int, "Session"] = {}  # the open ones; they keep memory that is in use
        handle = ctypes.c_uint64(0)
        try:
            _library.status("tw_group_join", _to_json(options), ctypes.byref(handle))
        except BaseException:
            if handle.value:  # an interrupt came when the group had been made
                _library.status("tw_group_close", handle.value)
            elif options.get("master_socket", -1) >= 0:
                os.close(options["master_socket"])
            raise
        self._handle = handle.value
        self.rank: int = options["rank"]
        self.size: int = options["size"]
        try:
            _library.wait(lambda seconds: _library.status("tw_group_wait", self._handle, seconds))
        except BaseException:
            self.close()
            raise

    @property
    def handle(self) -> int:
        if not self._handle:
            raise UsageError("thinwire: the group is closed")
        if self._process != os.getpid():
            raise UsageError("thinwire: the group belongs to the process that forked this one")
        return self._handle

    @property
    def is_open(self) -> bool:
        return bool(self._handle) and self._process == os.getpid()

    def show_log(self) -> None:
        """Passes the messages of the library to the logger "thinwire"."""
        level = ctypes.c_int(0)
        while self.is_open:
            text = _library.result("tw_group_log", self._handle, ctypes.byref(level))
            if level.value < 0:
                return
            log.log(_LEVELS[level.value], "%s", text[:-1].decode("utf-8", "replace"))

    def leave(self, limit: float, reason: str) -> None:
        """Waits until all ranks have left, for at most ``limit`` seconds, and closes the group.

        At the limit the other ranks get an error with this reason, and this one DeadlineError.
        """
        try:
            _library.status("tw_group_leave", self.handle)
            self.wait(lambda s: _library.status("tw_group_wait", self.handle, s), limit, reason)
        finally:
            self.close()

    def wait(self, poll: Callable[[float], int], limit: float, reason: str) -> None:
        """Calls ``poll(seconds)`` until the operation is complete. At the limit it aborts."""
        deadline = time.monotonic() + limit

        def poll_or_abort(seconds: float) -> int:
            status = poll(min(seconds, max(0.0, deadline - time.monotonic())))
            if status == PENDING and time.monotonic() >= deadline:
                self.abort(reason)
                fields = {"kind": "deadline", "rank": self.rank, "seconds": limit}
                raise DeadlineError(f"thinwire: {reason}", fields)
            return status

        _library.wait(poll_or_abort)

    def abort(self, reason: str) -> None:
        """Closes the group; the other ranks get an error with this reason."""
        if not self.is_open:
            return
        try:
            # An exception of the program may have a text that is no valid Unicode.
            _library.status("tw_group_abort", self._handle, reason.encode("utf-8", "replace"))
        except Error:
            pass  # the group has failed already
        finally:
            self.close()

    def close(self) -> None:
        if not self.is_open:
            return
        try:
            self.show_log()
        finally:
            handle, self._handle = self._handle, 0
            _library.status("tw_group_close", handle)  # ends all operations
            self._sessions.clear()

    def keep(self, handle: int, session: "Session") -> None:
        """Keeps an open session, whose memory an operation may use when nobody else needs it."""
        self._sessions[handle] = session

    def release(self, handle: int) -> None:
        """Called when a session is closed."""
        self._sessions.pop(handle, None)


class Session:
    """A strategy that synchronizes one model; see thinwire_c.h for the order of calls.

    Operations use memory of the whole model. The session keeps it until the operation is complete,
    even if the program was interrupted while it waited.
    """

    def __init__(self, group: Group, **options: Any) -> None:
        self._group = group
        self._in_use: List[Memory] = []
        handle = ctypes.c_uint64(0)
        _library.status(
            "tw_session_open", group.handle, _to_json(options), ctypes.byref(handle)
        )
        self._handle = handle.value
        group.keep(self._handle, self)

    def _start(self, operation: str, *arguments: Any) -> None:
        """Starts an operation; of a Memory it gets the address, and of None the address 0."""
        values: List[Any] = []
        for argument in arguments:
            is_memory = hasattr(argument, "address")
            values.append(argument.address if is_memory else argument)
            if is_memory:
                self._in_use.append(argument)
        _library.status(operation, self._handle, *values)

    def info(self) -> Dict[str, Any]:
        return dict(_library.result_json("tw_session_info", self._handle))

    def stats(self) -> Dict[str, Any]:
        return dict(_library.result_json("tw_session_stats", self._handle))

    def begin(self, params: Memory, step: int) -> None:
        self._start("tw_session_begin", params, params.numel, step)
        self.wait()

    def submit(self, bucket: int, params: Optional[Memory], grads: Memory) -> None:
        self._start("tw_session_submit", bucket, params, grads, grads.numel)

    def wait(self, limit: float = math.inf, reason: str = "") -> bool:
        """Waits until everything that was started is complete. Returns whether to skip the step.

        After ``limit`` seconds it raises DeadlineError: the group is closed, and the other ranks
        get an error with this reason.
        """
        skipped = ctypes.c_int(0)
        out = ctypes.byref(skipped)
        try:
            self._group.wait(
                lambda s: _library.status("tw_session_wait", self._handle, s, out), limit, reason
            )
            self._in_use.clear()
        except Error:
            self._in_use.clear()  # the operation has ended
            raise
        finally:
            self._group.show_log()
        return bool(skipped.value)

    def finish_step(self, params: Optional[Memory], samples: int, learning_rate: float) -> None:
        numel = 0 if params is None else params.numel
        self._start("tw_session_finish_step", params, numel, samples, learning_rate)
        self.wait()

    def end(self, params: Optional[Memory], limit: float = math.inf, reason: str = "") -> None:
        self._start("tw_session_end", params, 0 if params is None else params.numel)
        self.wait(limit, reason)

    def quiesce(self, params: Memory) -> None:
        self._start("tw_session_quiesce", params, params.numel)
        self.wait()

    def sum_metrics(self) -> None:
        self._start("tw_session_sum_metrics")
        self.wait()

    def saved_bytes(self) -> int:
        """Returns the length of the state that save() writes."""
        return _library.result_bytes("tw_session_save", self._handle)

    def save(self, out: int, capacity: int) -> None:
        needed = ctypes.byref(ctypes.c_size_t(0))
        _library.status("tw_session_save", self._handle, out, capacity, needed)

    def load(self, state: int, numbytes: int) -> None:
        _library.status("tw_session_load", self._handle, state, numbytes)

    def close(self) -> None:
        """Frees the session. An operation that is going on is completed first."""
        handle, self._handle = self._handle, 0
        if handle:
            _library.status("tw_session_close", handle)
            self._in_use.clear()
            self._group.release(handle)
