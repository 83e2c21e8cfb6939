"""A rank's membership in a group of processes."""

from __future__ import annotations

import ctypes
import json
import logging
import math
import os
import time
from typing import Any, Dict, Tuple

from thinwire import _library
from thinwire._errors import OK, Error, UsageError

log = logging.getLogger("thinwire")
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


def listen(host: str) -> Tuple[int, int]:
    """Opens a listening socket at a free port; returns the port and the descriptor."""
    port, descriptor = ctypes.c_uint16(0), ctypes.c_int(-1)
    _library.status("tw_listen", host.encode(), ctypes.byref(port), ctypes.byref(descriptor))
    return port.value, descriptor.value


class Group:
    """Joins when it is made, and returns when all ranks have joined. Raises JoinError."""

    def __init__(self, **options: Any) -> None:
        self._process = os.getpid()
        self._handle = 0
        handle = ctypes.c_uint64(0)
        _library.status("tw_group_join", json.dumps(options).encode(), ctypes.byref(handle))
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

    def leave(self, limit: float = math.inf) -> None:
        """Waits until all ranks have left, for at most ``limit`` seconds, and closes the group."""
        deadline = time.monotonic() + limit

        def poll(seconds: float) -> int:
            if time.monotonic() > deadline:
                self.abort("its program ended without close()")
                return OK
            return _library.status("tw_group_wait", self.handle, seconds)

        try:
            _library.status("tw_group_leave", self.handle)
            _library.wait(poll)
        finally:
            self.close()

    def abort(self, reason: str) -> None:
        """Closes the group; the other ranks get an error with this reason."""
        if not self.is_open:
            return
        try:
            _library.status("tw_group_abort", self._handle, reason.encode())
        except Error:
            pass  # the group has failed already
        self.close()

    def close(self) -> None:
        if not self.is_open:
            return
        try:
            self.show_log()
        finally:
            handle, self._handle = self._handle, 0
            _library.status("tw_group_close", handle)


class Session:
    """A strategy that synchronizes one model; see thinwire_c.h for the order of calls.

    Buffers are addresses of float32 memory of the whole model, which the caller keeps.
    """

    def __init__(self, group: Group, **options: Any) -> None:
        self._group = group
        handle = ctypes.c_uint64(0)
        text = json.dumps(options).encode()
        _library.status("tw_session_open", group.handle, text, ctypes.byref(handle))
        self._handle = handle.value

    def info(self) -> Dict[str, Any]:
        return dict(_library.result_json("tw_session_info", self._handle))

    def stats(self) -> Dict[str, Any]:
        return dict(_library.result_json("tw_session_stats", self._handle))

    def begin(self, params: int, numel: int, step: int) -> None:
        _library.status("tw_session_begin", self._handle, params, numel, step)
        self.wait()

    def submit(self, bucket: int, params: int, grads: int, numel: int) -> None:
        _library.status("tw_session_submit", self._handle, bucket, params, grads, numel)

    def wait(self, limit: float = math.inf) -> bool:
        """Waits until everything that was started is complete. Returns whether to skip the step.

        After ``limit`` seconds it gives up: the group is closed, and the other ranks get an error.
        """
        skipped = ctypes.c_int(0)
        out = ctypes.byref(skipped)
        deadline = time.monotonic() + limit

        def poll(seconds: float) -> int:
            if time.monotonic() > deadline:
                self._group.abort("its program ended without close()")
                return OK
            return _library.status("tw_session_wait", self._handle, seconds, out)

        try:
            _library.wait(poll)
        finally:
            self._group.show_log()
        return bool(skipped.value)

    def finish_step(self, params: int, numel: int, samples: int, learning_rate: float) -> None:
        _library.status(
            "tw_session_finish_step", self._handle, params, numel, samples, learning_rate
        )
        self.wait()

    def end(self, params: int, numel: int, limit: float = math.inf) -> None:
        _library.status("tw_session_end", self._handle, params, numel)
        self.wait(limit)

    def quiesce(self, params: int, numel: int) -> None:
        _library.status("tw_session_quiesce", self._handle, params, numel)
        self.wait()

    def sum_metrics(self) -> None:
        _library.status("tw_session_sum_metrics", self._handle)
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
        handle, self._handle = self._handle, 0
        if handle:
            _library.status("tw_session_close", handle)
