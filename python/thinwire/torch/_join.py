"""How the ranks of a PyTorch program form thinwire's group.

With a process group, rank 0 listens at a free port and tells the others its address and a fresh
token through the store of that group. Without one, the variables of the launcher (RANK, WORLD_SIZE, MASTER_ADDR,
MASTER_PORT) serve.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from typing import Any, Dict, List, Mapping, Optional

import torch.distributed as dist

from thinwire import _group
from thinwire._errors import ConfigError, Error, JoinError
from thinwire.torch import _addresses

_joined_by_variables = 0  # groups of this process so far that used MASTER_PORT
_meetings: Dict[str, int] = {}  # how often the ranks of a process group have met so far


def world_size(process_group: Optional[Any]) -> int:
    """Returns the number of ranks, before they join."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size(process_group)
    return int(_through_variables(os.environ)["size"])


def join_group(
    process_group: Optional[Any], timeout: float, join_timeout: float, network: Optional[str]
) -> _group.Group:
    """Called by all ranks together. Raises JoinError if not all ranks join in time."""
    global _joined_by_variables
    deadline = time.monotonic() + join_timeout
    options: Dict[str, Any] = {"timeout": timeout}
    if network:
        options["network"] = network
    if dist.is_available() and dist.is_initialized():
        meeting = _Meeting(process_group, deadline, join_timeout)
        options.update(_through_process_group(meeting))
    else:
        options.update(_through_variables(os.environ))
        _joined_by_variables += 1
    options["interface"] = os.environ.get("GLOO_SOCKET_IFNAME", "")
    options["join_timeout"] = max(1.0, deadline - time.monotonic())
    return _group.Group(**options)


class _Meeting:
    """Small messages between the ranks of a process group, through its store, until a deadline.

    A collective would be left behind when it takes too long, and the end of the program would wait
    for it until the time-out of torch.
    """

    def __init__(self, process_group: Optional[Any], deadline: float, limit: float) -> None:
        self._group = process_group
        self.rank, self.size = dist.get_rank(process_group), dist.get_world_size(process_group)
        ranks = range(self.size)
        members = [dist.get_global_rank(process_group, r) for r in ranks] if process_group else ranks
        group = ".".join(map(str, members))
        _meetings[group] = _meetings.get(group, 0) + 1
        self._name = f"thinwire/{group}/{_meetings[group]}"
        self._rounds = 0
        self._deadline = deadline
        self._limit = limit
        self._store: Any = None
        try:
            self._store = dist.distributed_c10d._get_default_store()
        except (AttributeError, KeyError):
            pass  # such as with MPI

    def all_gather(self, message: Any) -> List[Any]:
        """Returns the messages of all ranks. Raises JoinError at the deadline."""
        if self._store is None:
            everyone: List[Any] = [None] * self.size
            dist.all_gather_object(everyone, message, group=self._group)
            return everyone
        self._rounds += 1
        keys = [f"{self._name}/{self._rounds}/{rank}" for rank in range(self.size)]
        try:
            self._store.set(keys[self.rank], json.dumps(message))
            self._store.add(keys[self.rank] + "/here", 1)
            self._wait_for([key + "/here" for key in keys])
            return [json.loads(self._store.get(key)) for key in keys]
        except RuntimeError as error:
            if isinstance(error, Error):
                raise
            raise JoinError(
                f"thinwire: the store of torch.distributed failed ({str(error).splitlines()[0]}); "
                "the process that holds it, usually rank 0, has ended"
            ) from error

    def _wait_for(self, keys: List[str]) -> None:
        missing = dict(enumerate(keys))
        pause = 0.001
        while True:
            missing = {rank: key for rank, key in missing.items() if not self._store.add(key, 0)}
            if not missing:
                return
            if time.monotonic() > self._deadline:
                shown = ", ".join(map(str, missing))
                raise JoinError(
                    f"thinwire: not all {self.size} ranks called attach() or average() within "
                    f"{self._limit:g} s (missing: {shown}); look at the output of the missing ranks",
                    {"kind": "join", "rank": self.rank, "peer": next(iter(missing))},
                )
            time.sleep(pause)
            pause = min(0.1, 1.5 * pause)


def _through_process_group(meeting: _Meeting) -> Dict[str, Any]:
    rank, size = meeting.rank, meeting.size
    if size == 1:
        return {"rank": 0, "size": 1}
    ranks = meeting.all_gather(_addresses.about_this_rank(os.environ))
    message: Dict[str, Any] = {}
    descriptor = -1
    if rank == 0:
        try:
            host = _addresses.address_of_rank_0(ranks, os.environ.get("GLOO_SOCKET_IFNAME", ""))
            port, descriptor = _group.listen(host)
            message = {"host": host, "port": port, "token": secrets.token_hex(32)}
        except (Error, OSError) as error:  # the other ranks must not wait for an address
            message = {"error": str(error)}
    message = meeting.all_gather(message)[0]
    if "error" in message:
        raise ConfigError(
            f"thinwire: rank 0 cannot listen ({message['error']}); set MASTER_ADDR to an address of "
            "its machine that the other ranks can reach"
        )
    return {
        "rank": rank,
        "size": size,
        "master_host": message["host"],
        "master_port": message["port"],
        "master_socket": descriptor,
        "token": message["token"],
    }


def _through_variables(variables: Mapping[str, str]) -> Dict[str, Any]:
    if "WORLD_SIZE" not in variables:
        raise ConfigError(
            "thinwire: no process group and no WORLD_SIZE; call "
            "torch.distributed.init_process_group() first, or start the program with torchrun"
        )
    values: Dict[str, int] = {}
    for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_PORT", "29500")):
        text = variables.get(name, default)
        try:
            values[name] = int(text)
        except ValueError:
            raise ConfigError(f"thinwire: {name} is no number ({text!r})") from None
    host = variables.get("MASTER_ADDR", "127.0.0.1")
    has_other_machines = variables.get("LOCAL_WORLD_SIZE", "") not in ("", str(values["WORLD_SIZE"]))
    if values["RANK"] == 0 and has_other_machines:
        _addresses.refuse_loopback(host)
    # torchrun's own store listens at MASTER_PORT, and every further group needs a port of its own.
    taken = _joined_by_variables + int("TORCHELASTIC_RUN_ID" in variables)
    return {
        "rank": values["RANK"],
        "size": values["WORLD_SIZE"],
        "master_host": host,
        "master_port": values["MASTER_PORT"] + taken,
        "token": variables.get("THINWIRE_TOKEN", ""),
    }
