"""How ranks find each other: the address of rank 0, interfaces, and ranks that never come."""

from __future__ import annotations

import socket
from typing import Any, Dict, List

import pytest
from launch_ranks import Ranks
from thinwire.torch import ConfigError, _addresses, _join


def _rank(machine: str, master: List[str], address: str = "") -> Dict[str, Any]:
    return {"machine": [machine], "master": master, "address": address or machine}


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two addresses of its own, and other machines that it reaches from 10.0.0.1."""
    own = ("10.0.0.1", "192.0.2.1", "127.0.0.1", "127.0.1.1")
    monkeypatch.setattr(_addresses, "_is_own_address", lambda address: address in own)
    monkeypatch.setattr(_addresses, "_numeric", lambda host: [host] if host else [])
    monkeypatch.setattr(_addresses, "_address_towards", lambda peer: "10.0.0.1")


def test_a_loopback_name_of_rank_0_is_replaced_by_what_others_see(network: None) -> None:
    # Debian's /etc/hosts maps the host's own name to 127.0.1.1.
    ranks = [_rank("a", ["127.0.1.1"]), _rank("a", ["127.0.1.1"]), _rank("b", ["192.0.2.1"])]
    assert _addresses.address_of_rank_0(ranks, "") == "192.0.2.1"


def test_without_a_usable_name_the_route_to_a_peer_decides(network: None) -> None:
    for master in ([], ["127.0.1.1"]):
        ranks = [_rank("a", master), _rank("b", master, "10.0.0.2")]
        assert _addresses.address_of_rank_0(ranks, "") == "10.0.0.1"


def test_on_one_machine_the_name_of_the_master_is_taken(network: None) -> None:
    assert _addresses.address_of_rank_0([_rank("a", ["127.0.1.1"])] * 2, "") == "127.0.1.1"
    assert _addresses.address_of_rank_0([_rank("a", [])] * 2, "") == "127.0.0.1"


def test_an_interface_comes_before_the_name_of_the_master(network: None) -> None:
    ranks = [_rank("a", ["192.0.2.1"]), _rank("a", ["192.0.2.1"])]
    assert _addresses.address_of_rank_0(ranks, "no_such_interface,lo") == "127.0.0.1"
    with pytest.raises(OSError, match="other machines cannot reach it"):
        _addresses.address_of_rank_0([*ranks, _rank("b", ["192.0.2.1"])], "lo")
    with pytest.raises(OSError, match="not up on this machine"):
        _addresses.address_of_rank_0(ranks, "no_such_interface")


def test_variables_with_a_loopback_name_are_refused(network: None) -> None:
    variables = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.1.1"}
    with pytest.raises(ConfigError, match="loopback address on the machine of rank 0"):
        _join._through_variables(variables)
    assert _join._through_variables({**variables, "LOCAL_WORLD_SIZE": "4"})["size"] == 4
    assert _join._through_variables({**variables, "RANK": "1"})["rank"] == 1


def test_another_interface_than_that_of_the_master_address() -> None:
    own = _addresses._numeric(socket.gethostname()) + [_addresses._address_towards("192.0.2.254")]
    address = next((a for a in own if a and not _addresses.is_loopback(a)), None)
    if address is None:
        pytest.skip("this machine has only a loopback address")
    variables = {"MASTER_ADDR": address, "GLOO_SOCKET_IFNAME": "lo"}
    with Ranks("failing_rank.py", "exit", env=variables) as ranks:
        assert ranks.wait(120) == [0, 0], ranks.all_output()


def test_a_rank_that_never_attaches_ends_the_others_in_time() -> None:
    with Ranks("failing_rank.py", "absent") as ranks:
        ranks.wait_for_text(1, "absent", 120)
        assert ranks.processes[0].wait(120) == 1, ranks.all_output()
        assert "(missing: 1)" in ranks.output(0), ranks.all_output()
