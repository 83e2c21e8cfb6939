"""Cases: all strategies, and how they select over buckets."""

from __future__ import annotations

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

import thinwire
import thinwire.torch as tw
from cases.common import STEPS, assert_raises, assert_replicas_identical, flat, make_model, sgd, train

GRADIENT_SPECS = [s["name"] for s in thinwire.strategies() if s["exchanges"] == "gradients"]


def case_dense_is_what_ddp_does(rank: int, size: int) -> None:
    expected = DDP(make_model(), bucket_cap_mb=0.01)
    train(expected, sgd(expected), rank)
    model = DDP(make_model(), bucket_cap_mb=0.01)
    optimizer = sgd(model)
    with tw.attach(model, "dense", optimizer=optimizer, steps=STEPS, buckets=3) as wire:
        train(model, optimizer, rank)
        assert wire.stats()["steps"] == STEPS
        assert wire.stats()["bytes_sent"] > 0
    torch.testing.assert_close(flat(model), flat(expected), rtol=1e-5, atol=1e-6)
    assert_replicas_identical(model)


def case_every_gradient_strategy(rank: int, size: int) -> None:
    for spec in GRADIENT_SPECS:
        model = DDP(make_model(), bucket_cap_mb=0.01)
        optimizer = sgd(model)
        with tw.attach(model, spec, optimizer=optimizer, steps=STEPS):
            train(model, optimizer, rank)
        assert_replicas_identical(model)
        assert optimizer.param_groups[0]["momentum"] == 0.9, "the momentum was not given back"


def case_bucket_rebuild_keeps_residuals(rank: int, size: int) -> None:
    # The same gradients without DistributedDataParallel, which forms no buckets of its own.
    for spec in ("topk:density=0.05", "gtopk:density=0.05", "powersgd:start=0", "grandk:density=0.3"):
        plain = make_model()
        optimizer = sgd(plain, weight_decay=1e-3)
        with tw.attach(plain, spec, optimizer=optimizer, steps=STEPS, buckets=2):
            train(plain, optimizer, rank, after=lambda: tw.reduce_gradients(plain))
        model = DDP(make_model(), bucket_cap_mb=0.005)
        optimizer = sgd(model, weight_decay=1e-3)
        with tw.attach(model, spec, optimizer=optimizer, steps=STEPS, buckets=2):
            train(model, optimizer, rank)
        assert torch.equal(flat(model), flat(plain)), spec
        assert_replicas_identical(model)


def case_selection_over_buckets(rank: int, size: int) -> None:
    results = {}
    for select in ("bucket", "carry", "global"):
        model = DDP(make_model())
        optimizer = sgd(model)
        with tw.attach(
            model, f"topk:density=0.05,select={select}", optimizer=optimizer, steps=STEPS, buckets=3
        ):
            train(model, optimizer, rank)
        assert_replicas_identical(model)
        results[select] = flat(model)
    assert not torch.equal(results["bucket"], results["carry"])
    assert not torch.equal(results["bucket"], results["global"])
    assert_raises(
        tw.ConfigError, "bucket, global, carry", lambda: tw.attach(make_model(), "topk:select=all")
    )
