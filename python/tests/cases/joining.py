"""Cases: calls of attach() that fail on some ranks, and what they leave behind."""

from __future__ import annotations

import os
import time

import torch.distributed as dist

import thinwire.torch as tw
from cases.common import assert_raises, assert_replicas_identical, make_model, sgd, train
from thinwire import _group
from thinwire.torch import _join


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def case_ranks_meet_again_after_a_failed_attach(rank: int, size: int) -> None:
    for failing in (1, 0):
        model = make_model()
        optimizer = sgd(model)
        attach = lambda limit: tw.attach(  # noqa: E731
            model, "topk", optimizer=optimizer, steps=3, join_timeout=limit
        )
        if rank == failing:
            assert_raises(tw.ConfigError, "did you mean", lambda: tw.attach(model, "topc"))
        else:
            assert_raises(tw.JoinError, f"missing: {failing}", lambda: attach(1))
        dist.barrier()
        with attach(60):
            train(model, optimizer, rank, steps=3, after=lambda: tw.reduce_gradients(model))
        assert_replicas_identical(model)
    # The second call of one rank meets the first one of another.
    if rank == 1:
        assert_raises(tw.ConfigError, "did you mean", lambda: tw.attach(model, "topc"))
        time.sleep(0.5)
    with attach(60):
        train(model, optimizer, rank, steps=3, after=lambda: tw.reduce_gradients(model))


def case_keys_of_the_store_are_deleted(rank: int, size: int) -> None:
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    before = store.num_keys()
    dist.barrier()
    for _ in range(3):
        with tw.attach(make_model(), "dense"):
            pass
    dist.barrier()
    grown = store.num_keys() - before
    assert grown <= 0, f"{grown} more keys"
    dist.barrier()


def case_a_failed_attach_leaves_no_descriptor(rank: int, size: int) -> None:
    model = make_model()
    with tw.attach(model, "dense"):
        pass

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def attach() -> None:
        try:
            tw.attach(model, "dense", join_timeout=2)
        except (KeyboardInterrupt, tw.JoinError):
            return
        raise AssertionError("no error")

    before = _descriptors()
    answered = _join._StoreExchange._wait_for_answer
    if rank == 0:  # after its listen()
        _join._StoreExchange._wait_for_answer = fail
    try:
        attach()
        dist.barrier()
    finally:
        _join._StoreExchange._wait_for_answer = answered
    joined = _group._to_json
    _group._to_json = fail  # before tw_group_join()
    try:
        attach()
    finally:
        _group._to_json = joined
    assert _descriptors() == before, f"{_descriptors() - before} more descriptors"
    dist.barrier()
