"""At which address rank 0 listens, so that all ranks can reach it."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from thinwire._errors import ConfigError

_SIOCGIFADDR = 0x8915  # of ioctl(): the IPv4 address of an interface


def about_this_rank(variables: Mapping[str, str]) -> Dict[str, Any]:
    """Returns what rank 0 must know of every rank to choose its address.

    machine: is the same for processes that share a loopback address.
    master: the addresses that this rank's machine knows for MASTER_ADDR.
    address: the address from which this rank reaches rank 0, or its host name.
    """
    try:
        network = os.readlink("/proc/self/ns/net")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        network = boot = ""
    master = _numeric(variables.get("MASTER_ADDR", ""))
    towards = [_address_towards(address) for address in master if not is_loopback(address)]
    return {
        "machine": [socket.gethostname(), network, boot],
        "master": master,
        "address": next(filter(None, towards), socket.gethostname()),
    }


def address_of_rank_0(ranks: List[Dict[str, Any]], interfaces: str) -> str:
    """Returns a numeric address of this machine, that of rank 0, which all ranks can reach.

    ranks: what about_this_rank() returned on each; interfaces: as in GLOO_SOCKET_IFNAME. Raises
    OSError if no address is known.
    """
    others = [rank for rank in ranks if rank["machine"] != ranks[0]["machine"]]
    if interfaces:
        address = _interface_address(interfaces)
        if others and is_loopback(address):
            raise OSError(f"interface {interfaces}: other machines cannot reach it ({address})")
        return address
    # Other machines come first: Debian's /etc/hosts gives a machine's own name a loopback address.
    seen: List[str] = [address for rank in others + ranks for address in rank["master"]]
    for address in seen:
        if _is_own_address(address) and not (others and is_loopback(address)):
            return address
    if not others:
        return "127.0.0.1"
    for rank in others:
        for peer in _numeric(rank["address"]):
            own = _address_towards(peer)
            if own and not is_loopback(own):
                return own
    raise OSError("no address of this machine is known that other machines can reach")


def refuse_loopback(host: str) -> None:
    """Raises ConfigError if other machines cannot reach this name of the own machine."""
    found = _numeric(host)
    if found and all(is_loopback(address) for address in found):
        raise ConfigError(
            f"thinwire: MASTER_ADDR ({host}) is a loopback address on the machine of rank 0 "
            f"({found[0]}), which other machines cannot reach; set it to an address such as "
            "10.0.0.1"
        )


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _numeric(host: str) -> List[str]:
    """Returns the addresses of a host, IPv4 first."""
    if not host:
        return []
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _address_towards(peer: str) -> Optional[str]:
    """Returns the address from which packets to a peer are sent, or None if there is no route."""
    family = socket.AF_INET6 if ":" in peer else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((peer, 9))  # of a datagram socket: nothing is sent
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _interface_address(interfaces: str) -> str:
    """Returns the address of the first interface of a comma-separated list that has one."""
    for name in interfaces.split(","):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                request = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
                return socket.inet_ntoa(answer[20:24])
        except OSError:
            pass  # without an IPv4 address, or not there
        table = Path("/proc/net/if_inet6")
        for line in table.read_text().splitlines() if table.is_file() else []:
            digits, _, _, scope, _, interface = line.split()
            if interface == name and scope in ("00", "10"):  # global, or the host itself
                return str(ipaddress.IPv6Address(int(digits, 16)))
    raise OSError(f"interface {interfaces}: not up on this machine, or without an address")


def _is_own_address(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
        return True
    except OSError:
        return False
