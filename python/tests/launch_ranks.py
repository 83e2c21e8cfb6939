"""Starts the ranks of a test as processes, as torchrun would."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Optional

HERE = Path(__file__).resolve().parent
# The directory of the package that is tested; empty for the one that is installed.
PACKAGE_DIR = os.environ.get("THINWIRE_PACKAGE_DIR", str(HERE.parent))


def free_port() -> int:
    """Returns a port that was free a moment ago; torch offers no way to hand over a bound one.

    It is below the range from which Linux takes the ports of connections, which others open now.
    """
    while True:
        port = random.randrange(16384, 32768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Ranks:
    """The processes of one program. A context manager, which ends those that still run."""

    def __init__(
        self, script: str, *arguments: str, size: int = 2, env: Optional[Dict[str, str]] = None
    ) -> None:
        port = free_port()
        self.outputs = [tempfile.TemporaryFile("w+") for _ in range(size)]
        self.processes: List[subprocess.Popen] = []
        for rank in range(size):
            variables = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(filter(None, [PACKAGE_DIR, str(HERE)])),
                **(env or {}),
            }
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-u", str(HERE / script), *arguments],
                    env=variables,
                    stdout=self.outputs[rank],
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def output(self, rank: int) -> str:
        self.outputs[rank].seek(0)
        return self.outputs[rank].read()

    def all_output(self) -> str:
        return "".join(f"--- rank {r}\n{self.output(r)}" for r in range(len(self.processes)))

    def wait(self, seconds: float) -> List[int]:
        """Returns the exit codes. Raises AssertionError, with all output, after this time."""
        deadline = time.monotonic() + seconds
        for process in self.processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"still running after {seconds} s\n{self.all_output()}") from None
        return [process.returncode for process in self.processes]

    def wait_for_text(self, rank: int, text: str, seconds: float) -> None:
        """Returns when the rank has printed the text."""
        deadline = time.monotonic() + seconds
        while text not in self.output(rank):
            ended = self.processes[rank].poll() is not None
            if (ended and text not in self.output(rank)) or time.monotonic() > deadline:
                raise AssertionError(f"rank {rank} did not print {text!r}\n{self.all_output()}")
            time.sleep(0.02)

    def signal(self, rank: int, number: signal.Signals) -> None:
        self.processes[rank].send_signal(number)
