"""Every case of cases/ on two ranks, some on three, and some on one alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from launch_ranks import Ranks

FILES = sorted((Path(__file__).parent / "cases").glob("*.py"))
NAMES = [name for file in FILES for name in re.findall(r"^def case_(\w+)", file.read_text(), re.M)]
ON_THREE = [
    "every_gradient_strategy",
    "every_model_strategy",
    "bucket_rebuild_keeps_residuals",
    "weight_decay_where_ranks_differ",
    "a_subgroup_exchanges_alone",
]


def _results(size: int, *names: str) -> dict:
    with Ranks("run_cases.py", *names, size=size) as ranks:
        codes = ranks.wait(600)
        results: dict = {}
        for rank in range(size):
            for line in ranks.output(rank).splitlines():
                if line.startswith('{"case"'):
                    result = json.loads(line)
                    results.setdefault(result["case"], []).append(result["error"])
        results["codes"] = codes
        results["output"] = ranks.all_output()
        return results


@pytest.fixture(scope="session")
def on_two() -> dict:
    return _results(2)


@pytest.fixture(scope="session")
def on_three() -> dict:
    return _results(3, *ON_THREE)


def _check(results: dict, name: str, size: int) -> None:
    errors = results.get(name, [])
    assert len(errors) == size, results["output"]
    if any(error and error.startswith("skipped") for error in errors):
        pytest.skip(errors[0])
    assert errors == [None] * size, "\n".join(map(str, errors))


@pytest.mark.parametrize("name", NAMES)
def test_case(on_two: dict, name: str) -> None:
    _check(on_two, name, 2)


@pytest.mark.parametrize("name", ON_THREE)
def test_case_on_three_ranks(on_three: dict, name: str) -> None:
    _check(on_three, name, 3)


def test_one_rank_is_plain_sgd() -> None:
    _check(_results(1), "one_rank_is_plain_sgd", 1)


def test_all_ranks_end_without_an_error(on_two: dict) -> None:
    assert on_two["codes"] == [0, 0], on_two["output"]
