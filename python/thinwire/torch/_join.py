"""How the ranks of a PyTorch program form thinwire's group.

With a process group, rank 0 listens at a free port and sends the others its address and a fresh
token through the store of that group. Without one, the variables of the launcher (RANK,
WORLD_SIZE, MASTER_ADDR, MASTER_PORT) serve.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

import torch.distributed as dist

from thinwire import _group
from thinwire._errors import ConfigError, Error, JoinError
from thinwire.torch import _addresses
from thinwire.torch._options import JoinOptions

_joined_by_variables = 0  # groups of this process so far that used MASTER_PORT


def world_size(process_group: Optional[Any]) -> int:
    """Returns the number of ranks, before they join."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size(process_group)
    return int(_through_variables(os.environ)["size"])


def join_group(join: JoinOptions) -> _group.Group:
    """Called by all ranks together. Raises JoinError if not all ranks join in time."""
    deadline = time.monotonic() + join.join_timeout
    options: Dict[str, Any] = {"timeout": join.timeout}
    if join.network:
        options["network"] = join.network
    has_process_group = dist.is_available() and dist.is_initialized()
    if has_process_group:
        store = _StoreExchange(join.process_group, deadline, join.join_timeout)
        options.update(_through_process_group(store))
    else:
        options.update(_through_variables(os.environ))
    options["interface"] = os.environ.get("GLOO_SOCKET_IFNAME", "")
    options["join_timeout"] = max(1.0, deadline - time.monotonic())
    group = _group.Group(**options)
    if not has_process_group:
        global _joined_by_variables
        _joined_by_variables += 1  # only now: after a failure all ranks try the same port again
    return group


class _StoreExchange:
    """A question of every rank to rank 0 and its answer, through the store of a process group.

    A collective would be left behind when it takes too long, and the end of the program would wait
    for it until the time-out of torch.

    Every rank writes its question with a fresh number, under a key that is always the same. So
    ranks find each other again after a call that failed on some of them. Rank 0 answers under a key
    with the number of the question, which is deleted after use: it contains a secret.
    """

    def __init__(self, process_group: Optional[Any], deadline: float, limit: float) -> None:
        self._group = process_group
        self.rank, self.size = dist.get_rank(process_group), dist.get_world_size(process_group)
        members: List[int] = list(range(self.size))
        if process_group:
            members = [dist.get_global_rank(process_group, rank) for rank in members]
        self._name = f"thinwire/{'.'.join(map(str, members))}"
        self._deadline = deadline
        self._limit = limit
        self._store: Any = None
        try:
            self._store = dist.distributed_c10d._get_default_store()
        except (AttributeError, KeyError):
            pass  # such as with MPI

    def ask(self, question: Any, answer: Callable[[List[Any]], Any]) -> Any:
        """Returns what ``answer`` returns on rank 0 for the questions of all ranks.

        Raises JoinError at the deadline.
        """
        if self._store is None:
            return self._ask_by_collectives(question, answer)
        number = secrets.token_hex(8)
        own = self._question_key(self.rank)
        try:
            self._write(own, {"number": number, "question": question})
            try:
                if self.rank == 0:
                    self._answer_all(answer)
                return self._wait_for_answer(number)
            finally:
                # The question itself stays: rank 0 may be about to read it, and would wait for it.
                self._delete_mark(own)
        except RuntimeError as error:
            if isinstance(error, Error):
                raise
            raise JoinError(
                f"thinwire: the store of torch.distributed failed ({str(error).splitlines()[0]}); "
                "the process that holds it, usually rank 0, has ended"
            ) from error

    def _ask_by_collectives(self, question: Any, answer: Callable[[List[Any]], Any]) -> Any:
        questions: List[Any] = [None] * self.size
        dist.all_gather_object(questions, question, group=self._group)
        answers: List[Any] = [None] * self.size
        own = answer(questions) if self.rank == 0 else None
        dist.all_gather_object(answers, own, group=self._group)
        return answers[0]

    def _question_key(self, rank: int) -> str:
        return f"{self._name}/question/{rank}"

    def _answer_all(self, answer: Callable[[List[Any]], Any]) -> None:
        keys = [self._question_key(rank) for rank in range(self.size)]
        self._poll(lambda: all(map(self._has, keys)))
        messages = [json.loads(self._store.get(key)) for key in keys]
        for key in keys:  # so that the next call does not answer them again
            self._delete_mark(key)
        result = answer([message["question"] for message in messages])
        for message in messages:
            self._write(f"{self._name}/answer/{message['number']}", result)

    def _wait_for_answer(self, number: str) -> Any:
        key = f"{self._name}/answer/{number}"
        self._poll(lambda: self._has(key))
        answer = json.loads(self._store.get(key))
        self._delete(key)
        return answer

    def _write(self, key: str, message: Any) -> None:
        self._store.set(key, json.dumps(message))
        self._store.add(key + "/is_here", 1)

    def _has(self, key: str) -> bool:
        # A get() would wait until the key is there. add() never waits.
        return bool(self._store.add(key + "/is_here", 0))

    def _delete(self, key: str) -> None:
        self._delete_mark(key)
        self._delete_key(key)

    def _delete_mark(self, key: str) -> None:
        self._delete_key(key + "/is_here")

    def _delete_key(self, key: str) -> None:
        try:
            self._store.delete_key(key)
        except (RuntimeError, NotImplementedError):
            pass  # the store has ended

    def _poll(self, is_complete: Callable[[], bool]) -> None:
        pause = 0.001
        while not is_complete():
            if time.monotonic() > self._deadline:
                self._raise_missing()
            time.sleep(pause)
            pause = min(0.1, 1.5 * pause)

    def _raise_missing(self) -> None:
        keys = map(self._question_key, range(self.size))
        missing = [rank for rank, key in enumerate(keys) if not self._has(key)]
        shown = f" (missing: {', '.join(map(str, missing))})" if missing else ""
        raise JoinError(
            f"thinwire: not all {self.size} ranks called attach() or average() within "
            f"{self._limit:g} s{shown}; look at the output of the missing ranks",
            {"kind": "join", "rank": self.rank, "peer": missing[0] if missing else None},
        )


def _through_process_group(store: _StoreExchange) -> Dict[str, Any]:
    if store.size == 1:
        return {"rank": 0, "size": 1}
    descriptor = -1

    def listen(ranks: List[Any]) -> Dict[str, Any]:
        """Called on rank 0. The other ranks must not wait for its address if it has none."""
        nonlocal descriptor
        try:
            host = _addresses.address_of_rank_0(ranks, os.environ.get("GLOO_SOCKET_IFNAME", ""))
            port, descriptor = _group.listen(host)
        except (Error, OSError) as error:
            return {"error": str(error)}
        return {"host": host, "port": port, "token": secrets.token_hex(32)}

    try:
        answer = store.ask(_addresses.about_this_rank(os.environ), listen)
        if "error" in answer:
            raise ConfigError(
                f"thinwire: rank 0 cannot listen ({answer['error']}); set MASTER_ADDR to an "
                "address of its machine that the other ranks can reach"
            )
    except BaseException:
        if descriptor >= 0:
            os.close(descriptor)
        raise
    return {
        "rank": store.rank,
        "size": store.size,
        "master_host": answer["host"],
        "master_port": answer["port"],
        "master_socket": descriptor,
        "token": answer["token"],
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
    ranks_here = variables.get("LOCAL_WORLD_SIZE", "")
    has_other_machines = ranks_here not in ("", str(values["WORLD_SIZE"]))
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
