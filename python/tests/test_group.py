"""The Python side of the C API: signatures, memory of operations, and how exchanges are closed."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import weakref
from pathlib import Path
from typing import Any, Dict, List

import pytest
import torch
from thinwire import _errors, _group, _library
from thinwire.torch import _wire
from thinwire.torch._buffers import HostMemory

HEADER = Path(__file__).resolve().parents[2] / "include" / "thinwire" / "thinwire_c.h"
# The types of ctypes that may be used for a type of the header.
POINTER = ctypes.POINTER
BY_C_TYPE = {
    "const char*": [ctypes.c_char_p],
    "char*": [ctypes.c_void_p],
    "void*": [ctypes.c_void_p],
    "const void*": [ctypes.c_void_p],
    "float*": [ctypes.c_void_p],
    "size_t": [ctypes.c_size_t],
    "size_t*": [POINTER(ctypes.c_size_t)],
    "int*": [POINTER(ctypes.c_int)],
    "uint16_t*": [POINTER(ctypes.c_uint16)],
    "uint64_t": [ctypes.c_uint64],
    "double": [ctypes.c_double],
    "tw_group": [ctypes.c_uint64],
    "tw_session": [ctypes.c_uint64],
    "tw_group*": [POINTER(ctypes.c_uint64)],
    "tw_session*": [POINTER(ctypes.c_uint64)],
}


def _declared() -> Dict[str, List[str]]:
    """Returns the functions of the header that return a status, with the types of arguments."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    functions = {}
    for name, arguments in re.findall(r"TW_C_EXPORT tw_status (\w+)\((.*?)\);", text, re.S):
        types = [re.sub(r"\s*\w+$", "", each.strip()) for each in arguments.split(",")]
        functions[name] = [] if arguments.strip() == "void" else types
    return functions


@pytest.mark.skipif(not HEADER.is_file(), reason="there is no source tree")
def test_signatures_are_those_of_the_header() -> None:
    declared = _declared()
    assert sorted(declared) == sorted(_library.SIGNATURES)
    for name, types in declared.items():
        signature = _library.SIGNATURES[name]
        assert len(signature) == len(types), f"{name}: {types}"
        for position, (own, kind) in enumerate(zip(signature, types)):
            assert own in BY_C_TYPE[kind], f"{name}, argument {position}: {kind} and {own}"
    text = HEADER.read_text()
    assert f"#define TW_ABI_VERSION {_library.ABI_VERSION}\n" in text
    for name in ("tw_version", "tw_error_text", "tw_error_fields"):
        assert f"TW_C_EXPORT const char* {name}(void);" in text


@pytest.mark.skipif(not HEADER.is_file(), reason="there is no source tree")
def test_statuses_are_those_of_the_header() -> None:
    values = {n: int(v) for n, v in re.findall(r"(TW_[A-Z]+) = (\d+)", HEADER.read_text())}
    assert (values["TW_OK"], values["TW_PENDING"]) == (_errors.OK, _errors.PENDING)
    kinds = {"USAGE": "Usage", "CONFIG": "Config", "WIRE": "Wire", "JOIN": "Join"}
    for name, kind in {**kinds, "DEADLINE": "Deadline", "LOST": "Lost"}.items():
        assert _errors.BY_STATUS[values[f"TW_{name}"]] is getattr(_errors, f"{kind}Error")


class FakeLibrary:
    """Opens and closes, and never completes an operation: the program is interrupted."""

    def __init__(self) -> None:
        self.calls: List[str] = []
        self.reasons: List[bytes] = []
        self.is_interrupted = False

    def status(self, name: str, *arguments: Any) -> int:
        self.calls.append(name)
        if name in ("tw_group_join", "tw_session_open"):
            arguments[-1]._obj.value = len(self.calls)
        if name == "tw_group_abort":
            self.reasons.append(arguments[1])
        return _errors.OK

    def result(self, name: str, handle: int, level: Any) -> bytes:
        level._obj.value = -1
        return b"\0"

    def wait(self, poll: Any) -> None:
        if self.is_interrupted:
            raise KeyboardInterrupt


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    fake = FakeLibrary()
    monkeypatch.setattr(_group, "_library", fake)
    return fake


@pytest.mark.parametrize("end", ["session", "group", "wait"])
def test_memory_lives_as_long_as_its_operation(library: FakeLibrary, end: str) -> None:
    group = _group.Group(rank=0, size=2)
    session = _group.Session(group)
    gradients = torch.zeros(4)
    alive = weakref.ref(gradients)
    session.submit(0, None, HostMemory(gradients))
    library.is_interrupted = True
    with pytest.raises(KeyboardInterrupt):
        session.wait()
    del gradients
    handle = weakref.ref(session)
    del session
    gc.collect()
    assert alive() is not None, "an operation writes to memory that was freed"
    if end == "session":
        handle().close()
    elif end == "group":
        group.close()
    else:
        library.is_interrupted = False
        handle().wait()
    gc.collect()
    assert alive() is None, "the memory is never freed"


def test_any_text_can_be_a_reason(library: FakeLibrary) -> None:
    group = _group.Group(rank=0, size=2)
    group.abort("failed with a file name \udcff")
    assert not group.is_open
    assert library.reasons == [b"failed with a file name ?"]


def test_a_socket_is_closed_if_the_group_cannot_be_joined() -> None:
    _, descriptor = _group.listen("127.0.0.1")
    with pytest.raises(_errors.Error):
        _group.Group(rank=7, size=2, master_socket=descriptor)
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_one_exchange_that_fails_leaves_none_of_the_others_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Exchange:
        rank = 0

        def __init__(self, error: Any) -> None:
            self.error = error
            self.is_closed = False

        def _close_at_exit(self) -> None:
            if self.error is not None:
                raise self.error
            self.is_closed = True

    wires = [Exchange(ValueError("a mistake")), Exchange(None)]
    monkeypatch.setattr(_wire, "_open_wires", dict.fromkeys(wires))
    monkeypatch.delattr("sys.last_value", raising=False)
    _wire._close_all()
    assert wires[1].is_closed
