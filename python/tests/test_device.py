"""The order of copies, events and submissions on a device with streams, which is imitated."""

from __future__ import annotations

import contextlib
import types
from typing import Any, Iterator, List

import pytest
import torch
from thinwire.torch import _device, _steps
from thinwire.torch._buffers import Layout
from thinwire.torch._sgd import MovedSettings


class FakeDevice:
    """A module such as torch.cuda, which writes down what it is asked for."""

    def __init__(self) -> None:
        self.calls: List[str] = []
        self.current = self._stream("program")

    def _stream(self, name: str) -> Any:
        wait = lambda other: self.calls.append(f"{name} waits for {other.name}")  # noqa: E731
        return types.SimpleNamespace(name=name, wait_stream=wait)

    def Stream(self, device: Any) -> Any:  # noqa: N802
        return self._stream(f"copies of {device.index}")

    def Event(self) -> Any:  # noqa: N802
        event = types.SimpleNamespace(query=lambda: False)
        event.record = lambda stream: self.calls.append(f"record on {stream.name}")
        event.synchronize = lambda: self.calls.append("synchronize")
        return event

    def current_stream(self, device: Any) -> Any:
        return self.current

    @contextlib.contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    fake = FakeDevice()
    monkeypatch.setattr(torch, "fake", fake, raising=False)
    return fake


def _queue(index: int = 0) -> _device.CopyQueue:
    return _device.CopyQueue(types.SimpleNamespace(type="fake", index=index))  # type: ignore[arg-type]


def test_copies_follow_the_computation_and_precede_what_comes_next(device: FakeDevice) -> None:
    queue = _queue()
    with queue.after_computation():
        device.calls.append(f"copy on {device.current.name}")
    queue.record()
    queue.hand_over()
    assert device.calls == [
        "copies of 0 waits for program",
        "copy on copies of 0",
        "record on copies of 0",
        "program waits for copies of 0",
    ]


def test_a_device_without_streams_copies_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (types.SimpleNamespace(), types.SimpleNamespace(synchronize=None), None):
        monkeypatch.setattr(torch, "fake", module, raising=False)
        queue = _queue()
        assert not queue.is_asynchronous and queue.record() == []
        with queue.after_computation():
            pass
        queue.hand_over()


def test_a_bucket_is_submitted_after_its_copies(
    device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_steps, "CopyQueue", lambda _: _queue(1))
    monkeypatch.setattr(_device.CopyQueue, "keep", lambda self, tensor: tensor)
    layout = Layout(torch.nn.Linear(3, 2))
    moved = MovedSettings(None, "topk", 2, layout.parameters)
    steps = _steps.GradientSteps(layout, moved, size=2, finds_unused=False, is_static=False)
    steps.set_buckets([0])
    session = types.SimpleNamespace(
        submit=lambda bucket, *_: device.calls.append(f"submit {bucket}"),
        wait=lambda: False,
        finish_step=lambda *_: None,
    )
    steps.start(1.0)
    for index, parameter in enumerate(layout.parameters):
        steps.take(index, torch.ones_like(parameter))
        steps.submit_ready(session)  # type: ignore[arg-type]
    assert "submit 0" not in device.calls, "the copies are not complete"
    assert steps.finish(session, None)  # type: ignore[arg-type]
    assert device.calls[-3:] == ["record on copies of 1", "synchronize", "submit 0"]
    gradient = torch.zeros(2)
    steps.deliver(0, gradient)
    steps.hand_over()
    assert torch.equal(gradient, torch.ones(2))
    assert device.calls[-1] == "program waits for copies of 1"
