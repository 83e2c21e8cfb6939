"""The programs of examples/pytorch run as plain DDP and with thinwire."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Optional

import pytest
import torch
from launch_ranks import PACKAGE_DIR, Ranks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pytorch"
LINE = re.compile(
    r"^(\S+): accuracy (\S+) %, (\S+) ms per step, (\S+) bytes per worker and step, (\d+) steps", re.M
)
# Bytes of a ring all-reduce of all gradients between two workers.
LENET_BYTES = 431_080 * 4
RESNET_BYTES = 269_722 * 4


def _last_line(script: str, *arguments: str) -> "re.Match[str]":
    """Runs an example on two ranks. Returns the line that it prints at its end."""
    with Ranks(str(EXAMPLES / script), *arguments) as ranks:
        assert ranks.wait(300) == [0, 0], ranks.all_output()
        found = LINE.search(ranks.output(0))
        assert found, ranks.all_output()
        assert not LINE.search(ranks.output(1)), "only rank 0 prints results"
        return found


def _check_bytes(sent: str, plain: int, is_plain: bool) -> None:
    sent_bytes = int(sent.replace(",", ""))
    assert sent_bytes == plain if is_plain else 0 < sent_bytes < plain


@pytest.mark.parametrize("spec", [None, "topk", "localsgd"])
def test_mnist(spec: Optional[str]) -> None:
    strategy = ["--strategy", spec] if spec else []
    name, accuracy, _, sent, steps = _last_line("mnist.py", "--max-steps", "40", *strategy).groups()
    assert (name, steps) == (spec or "ddp", "40")
    assert float(accuracy) > 50  # guessing has 10
    _check_bytes(sent, LENET_BYTES, spec is None)


@pytest.mark.parametrize("spec", [None, "qsgd", "lasgd"])
def test_cifar10(spec: Optional[str], tmp_path: Path) -> None:
    """On a few images of noise: only whether it runs to the end."""
    torch.manual_seed(1)
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        records = torch.randint(256, (16, 1 + 3 * 32 * 32), dtype=torch.uint8)
        records[:, 0] %= 10
        (tmp_path / f"{name}.bin").write_bytes(bytes(records.flatten().tolist()))
    strategy = ["--strategy", spec] if spec else []
    options = ["--data", str(tmp_path), "--batch", "4", "--max-steps", "12"]
    name, _, _, sent, steps = _last_line("cifar10.py", *options, *strategy).groups()
    assert (name, steps) == (spec or "ddp", "12")
    if spec != "lasgd":  # which may begin more rounds than there are steps
        _check_bytes(sent, RESNET_BYTES, spec is None)


@pytest.mark.skipif(torch.__version__ < "2", reason="torchrun of torch 1.13 needs Python below 3.11")
def test_torchrun() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    program = [str(EXAMPLES / "mnist.py"), "--max-steps", "40", "--strategy", "topk"]
    path = os.pathsep.join(filter(None, [PACKAGE_DIR, os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        command + program,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout
    found = LINE.search(ended.stdout)
    assert found and found[1] == "topk", ended.stdout
