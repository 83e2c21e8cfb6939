"""Cases: checkpoints, statistics, and calls at the wrong time."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

import thinwire.torch as tw
from cases.common import STEPS, assert_raises, flat, loss_of, make_model, sgd, train


def case_a_saved_state_continues_the_run(rank: int, size: int) -> None:
    def run(interrupted: bool, spec: str) -> torch.Tensor:
        model = DDP(make_model(), bucket_cap_mb=0.01)
        optimizer = sgd(model)
        wire = tw.attach(model, spec, optimizer=optimizer, steps=STEPS, buckets=2)
        train(model, optimizer, rank, steps=3)
        if interrupted:
            saved = {"m": model.module.state_dict(), "o": optimizer.state_dict(), "w": wire.state_dict()}
            saved = {k: dict(v) for k, v in saved.items()}
            wire.close()
            model = make_model(seed=9)
            model.load_state_dict(saved["m"])
            model = DDP(model, bucket_cap_mb=0.01)
            optimizer = sgd(model)
            optimizer.load_state_dict(saved["o"])
            wire = tw.attach(model, spec, optimizer=optimizer, steps=STEPS, buckets=2)
            wire.load_state_dict(saved["w"])
        train(model, optimizer, rank, steps=3, first=3)
        wire.close()
        return flat(model)

    for spec in ("topk:density=0.05", "powersgd:start=0"):
        assert torch.equal(run(False, spec), run(True, spec)), spec
    model = make_model()
    with tw.attach(model, "topk", steps=5) as wire:
        state = wire.state_dict()
    wire = tw.attach(model, "gtopk", steps=5)
    dist.barrier()  # a rank that gives up does not disturb an attach() that is still going on
    assert_raises(tw.ConfigError, "spec is '", lambda: wire.load_state_dict(state))
    wire = tw.attach(model, "gtopk", steps=5)
    dist.barrier()
    assert_raises(tw.WireError, "no state", lambda: wire.load_state_dict({}))
    # A damaged state on one rank reaches the others as an error.
    wire = tw.attach(model, "topk", steps=5)
    dist.barrier()
    if rank == 0:
        state["state"] = state["state"][:-1]
    kind = tw.WireError if rank == 0 else tw.LostError
    assert_raises(kind, "", lambda: wire.load_state_dict(state))


def case_wrong_specs_are_refused_on_all_ranks(rank: int, size: int) -> None:
    model = DDP(make_model())
    assert_raises(tw.ConfigError, "did you mean gtopk", lambda: tw.attach(model, "gtopc"))
    assert_raises(tw.ConfigError, "average()", lambda: tw.attach(model, "localsgd"))
    plain = make_model()
    assert_raises(tw.ConfigError, "attach()", lambda: tw.average(plain, sgd(plain), "topk"))
    assert_raises(tw.ConfigError, "module", lambda: tw.average(model, sgd(plain), "localsgd"))
    own = "topk" if rank == 0 else "qsgd"
    assert_raises(tw.ConfigError, "'topk' on rank", lambda: tw.attach(model, own, steps=5))
    assert_raises(tw.UsageError, "attach() was not called", lambda: tw.reduce_gradients(plain))
    frozen = make_model().requires_grad_(False)
    assert_raises(tw.ConfigError, "no parameter", lambda: tw.attach(frozen, "topk"))


def case_closed_objects_say_so(rank: int, size: int) -> None:
    model = make_model()
    wire = tw.attach(model, "dense", steps=5)
    wire.close()
    wire.close()
    assert_raises(tw.UsageError, "closed", wire.stats)
    loss_of(model, rank, 0).backward()
    assert_raises(tw.UsageError, "closed", lambda: tw.reduce_gradients(model))


def case_statistics(rank: int, size: int) -> None:
    model = DDP(make_model())
    optimizer = sgd(model)
    with tw.attach(model, "topk:density=0.05", optimizer=optimizer, steps=STEPS) as wire:
        for step in range(STEPS):
            if rank == 1:  # the slow one, for which the others wait
                time.sleep(0.05)
            train(model, optimizer, rank, steps=1, first=step)
        stats = wire.stats(all_ranks=True)
    assert stats["steps"] == STEPS and stats["residual_ratio"] >= 0
    waits = stats["blocked_seconds_of_ranks"]
    assert len(waits) == size and min(waits) == waits[1] > 0, waits
    assert abs(stats["blocked_seconds"] - waits[rank]) < 1e-3, stats
    assert "coverage" in stats["metrics"], stats


def case_unused_parameters_are_in_the_state(rank: int, size: int) -> None:
    """With static_graph, ranks ask which parameters are used until all were used once."""

    def attached(**options):
        model = DDP(make_model(), **options)
        optimizer = sgd(model)
        return model, optimizer, tw.attach(model, "topk:density=0.1", optimizer=optimizer, steps=9)

    model, optimizer, wire = attached(static_graph=True)
    train(model, optimizer, rank, steps=2)
    state = wire.state_dict()
    assert all(state["known"])
    wire.close()
    model, optimizer, wire = attached(static_graph=True)
    assert not any(wire.state_dict()["known"])
    wire.load_state_dict(state)
    assert all(wire.state_dict()["known"])
    train(model, optimizer, rank, steps=2)
    wire.close()
    # Gradients that were not delivered must not be lost.
    model, optimizer, wire = attached()
    dist.barrier()
    assert_raises(tw.ConfigError, "not delivered", lambda: wire.load_state_dict(state))
    dist.barrier()
