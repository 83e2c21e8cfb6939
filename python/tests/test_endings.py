"""Programs that are killed, interrupted, fail or just end: nothing hangs, and messages name the cause."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest
from launch_ranks import Ranks

LONG = 120.0  # seconds that no start of a run reaches unless it hangs
TIMEOUT = 40.0  # of the exchange in failing_rank.py
SHORT = 30.0  # seconds in which an end is noticed: before the timeout


@pytest.mark.parametrize(
    "mode,spec",
    [
        ("train", "topk:density=0.1"),
        ("train", "dense"),
        ("workers", "topk:density=0.1"),  # forked processes have copies of the connections
        ("average", "lasgd"),
        ("average", "gossip"),
        ("average", "localsgd"),
    ],
)
def test_a_killed_rank_ends_all_others_with_its_name(mode: str, spec: str) -> None:
    with Ranks("failing_rank.py", mode, spec, size=3) as ranks:
        for rank in range(3):
            ranks.wait_for_text(rank, "training", LONG)
        ranks.signal(1, signal.SIGKILL)
        codes = ranks.wait(SHORT)
        assert codes[1] == -signal.SIGKILL
        for rank in (0, 2):
            assert codes[rank] == 1, ranks.all_output()
            assert "lost rank 1" in ranks.output(rank), ranks.all_output()
            assert "LostError" in ranks.output(rank), ranks.all_output()


@pytest.mark.parametrize("mode", ["train", "network"])
def test_an_interrupt_ends_all(mode: str) -> None:
    with Ranks("failing_rank.py", mode) as ranks:
        ranks.wait_for_text(0, "training", LONG)
        ranks.wait_for_text(1, "training", LONG)
        ranks.signal(0, signal.SIGSTOP)  # so that rank 1 waits inside the exchange
        ranks.signal(1, signal.SIGINT)
        ranks.signal(0, signal.SIGCONT)
        codes = ranks.wait(SHORT)
        assert codes[1] not in (0, None) and "KeyboardInterrupt" in ranks.output(1)
        assert codes[0] == 1 and "lost rank 1" in ranks.output(0), ranks.all_output()
        assert "KeyboardInterrupt" in ranks.output(0), ranks.all_output()


@pytest.mark.parametrize("mode", ["raise", "raise-unused"])
def test_an_exception_on_one_rank_reaches_the_others(mode: str) -> None:
    with Ranks("failing_rank.py", mode) as ranks:
        codes = ranks.wait(LONG)
        assert codes == [1, 1], ranks.all_output()
        assert "ValueError: a mistake of the program" in ranks.output(0), ranks.all_output()
        assert "LostError" in ranks.output(0), ranks.all_output()


def test_a_program_may_end_without_close() -> None:
    with Ranks("failing_rank.py", "exit", size=3) as ranks:
        assert ranks.wait(LONG) == [0, 0, 0], ranks.all_output()
        for rank in range(3):
            assert "Error" not in ranks.output(rank), ranks.all_output()


def test_several_exchanges_end_in_the_same_order_on_all_ranks() -> None:
    with Ranks("failing_rank.py", "several", size=3) as ranks:
        for rank in range(3):
            ranks.wait_for_text(rank, "training", LONG)
        # In different orders, ranks would wait for each other until the limit of an exit, 10 s.
        assert ranks.wait(8) == [0, 0, 0], ranks.all_output()


@pytest.mark.parametrize("spec", ["localsgd:period=10", "lasgd", "gossip"])
def test_a_program_may_end_without_finish_but_not_silently(spec: str) -> None:
    with Ranks("failing_rank.py", "unfinished", spec, size=2) as ranks:
        for rank in range(2):
            ranks.wait_for_text(rank, "training", LONG)
        assert ranks.wait(SHORT) == [0, 0], ranks.all_output()
        for rank in range(2):
            assert "ends without finish()" in ranks.output(rank), ranks.all_output()


def test_a_rank_that_ends_early_ends_the_others_before_their_deadline() -> None:
    with Ranks("failing_rank.py", "early") as ranks:
        assert ranks.wait(SHORT) == [1, 3], ranks.all_output()
        assert "its program ended without close()" in ranks.output(0), ranks.all_output()


def test_sys_exit_in_a_block_is_an_end_or_a_failure() -> None:
    with Ranks("failing_rank.py", "block", "0") as ranks:
        assert ranks.wait(LONG) == [0, 0], ranks.all_output()
    with Ranks("failing_rank.py", "block", "5") as ranks:
        assert ranks.wait(LONG) == [1, 5], ranks.all_output()
        assert "rank 1 ended with exit code 5" in ranks.output(0), ranks.all_output()


def test_a_process_of_torch_multiprocessing_tells_its_exception() -> None:
    with Ranks("failing_rank.py", "spawn", size=1) as ranks:
        assert ranks.wait(LONG) == [1], ranks.all_output()
        found = re.search(r"rank 0 lost: .*ValueError: a mistake of the program", ranks.output(0))
        assert found, ranks.all_output()


def test_close_has_a_deadline() -> None:
    with Ranks("failing_rank.py", "late") as ranks:
        ranks.wait_for_text(1, "late", LONG)
        assert ranks.processes[0].wait(SHORT) == 1, ranks.all_output()
        assert "DeadlineError" in ranks.output(0), ranks.all_output()
        assert "waited 3 s in close() for the other ranks" in ranks.output(0), ranks.all_output()


def test_an_interrupt_in_stats_ends_all() -> None:
    with Ranks("failing_rank.py", "stats") as ranks:
        for rank in range(2):
            ranks.wait_for_text(rank, "training", LONG)
        time.sleep(1)
        ranks.signal(0, signal.SIGINT)
        codes = ranks.wait(SHORT)
        assert codes[0] != 0 and "interrupted" in ranks.output(0), ranks.all_output()
        assert codes[1] == 1 and "KeyboardInterrupt" in ranks.output(1), ranks.all_output()


def test_works_without_a_process_group() -> None:
    with Ranks("failing_rank.py", "variables") as ranks:
        assert ranks.wait(LONG) == [0, 0], ranks.all_output()
        weights = {re.search(r"weight (\S+)", ranks.output(rank))[1] for rank in range(2)}
        assert len(weights) == 1, ranks.all_output()


@pytest.mark.parametrize(
    "spec",
    "topk:density=0.1 gtopk:density=0.1 qsgd powersgd:start=0 localsgd lasgd gossip".split(),
)
def test_many_steps_leak_nothing(spec: str) -> None:
    steps = os.environ.get("THINWIRE_LEAK_STEPS", "1000")
    with Ranks("failing_rank.py", "leaks", spec, steps) as ranks:
        assert ranks.wait(20 * LONG) == [0, 0], ranks.all_output()
        for rank in range(2):
            line = re.search(r"^grown (.*)$", ranks.output(rank), re.M)[1]
            first, *counts_first, second, descriptors, threads = map(int, line.split())
            print(f"{spec}: {first} KiB and {second} KiB more in the halves of {steps} steps")
            # A leak in each step would grow in the second half, too. Allocators grow in the first.
            assert second < 512, f"{second} KiB more in the second half\n{ranks.all_output()}"
            assert [*counts_first, descriptors, threads] == [0, 0, 0, 0], ranks.all_output()
