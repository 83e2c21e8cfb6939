"""Finds libthinwire_c.so and calls it through ctypes."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, List

from thinwire import _errors

ABI_VERSION = 1  # TW_ABI_VERSION of the thinwire_c.h that this package was written for
NAME = "libthinwire_c.so"

_TEXT, _SIZE, _HANDLE = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64
_SIZE_OUT = ctypes.POINTER(ctypes.c_size_t)
_INT_OUT = ctypes.POINTER(ctypes.c_int)
_ADDRESS = ctypes.c_void_p
_RESULT = [_ADDRESS, _SIZE, _SIZE_OUT]  # out, capacity, needed
SIGNATURES: Dict[str, List[Any]] = {
    "tw_after_fork_in_child": [],
    "tw_list": _RESULT,
    "tw_strategy_info": [_TEXT, *_RESULT],
    "tw_listen": [_TEXT, ctypes.POINTER(ctypes.c_uint16), _INT_OUT],
    "tw_group_join": [_TEXT, ctypes.POINTER(_HANDLE)],
    "tw_group_wait": [_HANDLE, ctypes.c_double],
    "tw_group_leave": [_HANDLE],
    "tw_group_abort": [_HANDLE, _TEXT],
    "tw_group_close": [_HANDLE],
    "tw_group_log": [_HANDLE, _INT_OUT, *_RESULT],
    "tw_session_open": [_HANDLE, _TEXT, ctypes.POINTER(_HANDLE)],
    "tw_session_info": [_HANDLE, *_RESULT],
    "tw_session_begin": [_HANDLE, _ADDRESS, _SIZE, ctypes.c_uint64],
    "tw_session_submit": [_HANDLE, _SIZE, _ADDRESS, _ADDRESS, _SIZE],
    "tw_session_wait": [_HANDLE, ctypes.c_double, _INT_OUT],
    "tw_session_finish_step": [_HANDLE, _ADDRESS, _SIZE, ctypes.c_uint64, ctypes.c_double],
    "tw_session_end": [_HANDLE, _ADDRESS, _SIZE],
    "tw_session_quiesce": [_HANDLE, _ADDRESS, _SIZE],
    "tw_session_save": [_HANDLE, *_RESULT],
    "tw_session_load": [_HANDLE, _ADDRESS, _SIZE],
    "tw_session_sum_metrics": [_HANDLE],
    "tw_session_stats": [_HANDLE, *_RESULT],
    "tw_session_close": [_HANDLE],
}


def find() -> Path:
    """Returns the library: THINWIRE_LIBRARY, the one inside the package, or that of build/."""
    named = os.environ.get("THINWIRE_LIBRARY")
    if named:
        if not Path(named).is_file():
            raise ImportError(f"thinwire: THINWIRE_LIBRARY names no file ({named})")
        return Path(named)
    package = Path(__file__).resolve().parent
    places = [package / NAME, package.parent.parent / "build" / "c_api" / NAME]
    for place in places:
        if place.is_file():
            return place
    looked = ", ".join(str(place) for place in places)
    raise ImportError(
        f"thinwire: {NAME} not found (looked for {looked}); run `make build` in the source tree, "
        "install the package with pip, or set THINWIRE_LIBRARY"
    )


def _load() -> ctypes.CDLL:
    path = find()
    try:
        # CDLL releases the interpreter's lock during calls. With RTLD_DEEPBIND the library uses the
        # Gloo that it was linked with, not the one inside of a torch that was loaded before.
        library = ctypes.CDLL(str(path), mode=getattr(os, "RTLD_DEEPBIND", 0))
    except OSError as error:
        raise ImportError(f"thinwire: {path} cannot be loaded ({error})") from error
    library.tw_abi_version.restype = ctypes.c_int
    found = library.tw_abi_version()
    if found != ABI_VERSION:
        raise ImportError(
            f"thinwire: {path} has ABI version {found}, this package needs {ABI_VERSION}; "
            "build the library and install the package from the same source"
        )
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int
    for name in ("tw_version", "tw_error_text", "tw_error_fields"):
        getattr(library, name).restype = ctypes.c_char_p
    return library


_library = _load()
# A worker of a DataLoader must not keep the connections by which ranks notice that a rank is dead.
os.register_at_fork(after_in_child=lambda: _library.tw_after_fork_in_child())


def status(name: str, *arguments: Any) -> int:
    """Calls a function and returns its status; raises the error of any failure."""
    code: int = getattr(_library, name)(*arguments)
    if code not in (_errors.OK, _errors.PENDING):
        raise _error(code)
    return code


def _error(code: int) -> _errors.Error:
    text = _library.tw_error_text().decode("utf-8", "replace")
    fields = json.loads(_library.tw_error_fields().decode("utf-8", "replace"))
    return _errors.BY_STATUS.get(code, _errors.Error)(text, fields)


def result(name: str, *arguments: Any) -> bytes:
    """Calls a function that writes a result of unknown length, and returns the result."""
    needed = ctypes.c_size_t(0)
    room = 4096
    while True:
        out = ctypes.create_string_buffer(room)
        needed.value = 0
        code = getattr(_library, name)(*arguments, out, room, ctypes.byref(needed))
        if code == _errors.OK:
            return out.raw[: needed.value]
        if code == _errors.USAGE and needed.value > room:
            room = needed.value
            continue
        raise _error(code)


def result_bytes(name: str, *arguments: Any) -> int:
    """Calls a function that writes a result, and returns only the length of the result."""
    needed = ctypes.c_size_t(0)
    code = getattr(_library, name)(*arguments, None, 0, ctypes.byref(needed))
    if code not in (_errors.OK, _errors.USAGE) or needed.value == 0:
        raise _error(code)
    return needed.value


def result_json(name: str, *arguments: Any) -> Any:
    return json.loads(result(name, *arguments)[:-1].decode("utf-8"))


def wait(poll: Callable[[float], int]) -> None:
    """Calls ``poll(seconds)`` until the operation is complete; Python handles signals meanwhile."""
    while poll(0.2) == _errors.PENDING:
        pass


def version() -> str:
    """Returns the version of the library, for example "0.2.0"."""
    return str(_library.tw_version().decode())


def strategies() -> List[Dict[str, Any]]:
    """Returns the strategies, each with name, help, what it exchanges, and its keys."""
    return list(result_json("tw_list")["strategies"])


def strategy_info(**options: Any) -> Dict[str, Any]:
    """Returns what thinwire_c.h says of tw_strategy_info(). Raises ConfigError for a wrong spec."""
    return dict(result_json("tw_strategy_info", json.dumps(options, allow_nan=False).encode()))


def transports() -> List[Dict[str, str]]:
    """Returns the transports that this build of the library contains."""
    return list(result_json("tw_list")["transports"])
