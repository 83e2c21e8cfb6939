"""Cases: what DistributedDataParallel offers."""

from __future__ import annotations

import gc
import weakref
from typing import List

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import thinwire.torch as tw
from cases.common import STEPS, assert_raises, assert_replicas_identical, flat, loss_of, make_model, sgd, train


def case_gradients_as_bucket_views_and_static_graph(rank: int, size: int) -> None:
    expected: List[torch.Tensor] = []
    for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
        model = DDP(make_model(), bucket_cap_mb=0.01, **options)
        optimizer = sgd(model)
        with tw.attach(model, "topk:density=0.1", optimizer=optimizer, steps=STEPS):
            train(model, optimizer, rank)
        assert_replicas_identical(model)
        expected.append(flat(model))
    assert torch.equal(expected[0], expected[1])
    assert torch.equal(expected[0], expected[2])


def case_no_sync_accumulates(rank: int, size: int) -> None:
    results = []
    for accumulate in (True, False):
        model = DDP(make_model())
        optimizer = sgd(model)
        with tw.attach(model, "topk:density=0.1", optimizer=optimizer, steps=3):
            for step in range(3):
                optimizer.zero_grad()
                if accumulate:
                    with model.no_sync():
                        loss_of(model, rank, 2 * step).backward()
                    loss_of(model, rank, 2 * step + 1).backward()
                else:
                    both = loss_of(model, rank, 2 * step) + loss_of(model, rank, 2 * step + 1)
                    both.backward()
                optimizer.step()
        assert_replicas_identical(model)
        results.append(flat(model))
    torch.testing.assert_close(results[0], results[1], rtol=1e-3, atol=1e-4)


def case_join_with_uneven_inputs(rank: int, size: int) -> None:
    """Ranks without data contribute zeros, and get the last model, as without thinwire."""
    results = []
    for spec in (None, "dense", "topk:density=1,values=fp32,warmup=none", "topk:density=0.1"):
        model = DDP(make_model(), bucket_cap_mb=0.01)
        optimizer = sgd(model)
        wire = tw.attach(model, spec, optimizer=optimizer, steps=8) if spec else None
        with model.join():
            train(model, optimizer, rank, steps=3 + 2 * rank)
        if wire is not None:
            assert wire.stats()["steps"] == 3 + 2 * (size - 1)
            wire.close()
        assert_replicas_identical(model)
        results.append(flat(model))
        dist.barrier()
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(results[2], results[0], rtol=1e-5, atol=1e-6)
    assert torch.isfinite(results[3]).all()


def case_frozen_parameters(rank: int, size: int) -> None:
    model = make_model()
    model[0].weight.requires_grad_(False)
    frozen = model[0].weight.clone()
    model = DDP(model)
    optimizer = sgd(model)
    with tw.attach(model, "gtopk", optimizer=optimizer, steps=STEPS):
        train(model, optimizer, rank)
    assert torch.equal(model.module[0].weight, frozen)
    assert_replicas_identical(model)


def case_two_models_in_one_program(rank: int, size: int) -> None:
    models = [DDP(make_model(seed)) for seed in (1, 2)]
    optimizers = [sgd(model) for model in models]
    wires = [
        tw.attach(model, spec, optimizer=optimizer, steps=STEPS)
        for model, optimizer, spec in zip(models, optimizers, ("topk", "qsgd"))
    ]
    for step in range(STEPS):
        for model, optimizer in zip(models, optimizers):
            train(model, optimizer, rank, steps=1, first=step)
    for model, wire in zip(models, wires):
        wire.close()
        assert_replicas_identical(model)


def case_batch_norm_buffers_are_left_alone(rank: int, size: int) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 30), nn.BatchNorm1d(30), nn.ReLU(), nn.Linear(30, 5))
    model = DDP(model, broadcast_buffers=False)
    optimizer = sgd(model)
    with tw.attach(model, "topk", optimizer=optimizer, steps=STEPS):
        train(model, optimizer, rank)
    means = model.module[1].running_mean
    other = [torch.empty_like(means) for _ in range(size)]
    dist.all_gather(other, means)
    assert not torch.equal(other[0], other[1])
    assert_replicas_identical(model)


def case_channels_last(rank: int, size: int) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten())
    model = DDP(model.to(memory_format=torch.channels_last))
    optimizer = sgd(model)
    with tw.attach(model, "topk:density=0.3", optimizer=optimizer, steps=3):
        for step in range(3):
            generator = torch.Generator().manual_seed(10 * step + rank)
            inputs = torch.randn(4, 3, 8, 8, generator=generator)
            optimizer.zero_grad()
            model(inputs.contiguous(memory_format=torch.channels_last)).square().mean().backward()
            optimizer.step()
    assert_replicas_identical(model)


def case_weight_decay_of_channels_last(rank: int, size: int) -> None:
    results = []
    for is_ddp in (True, False):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten())
        model = model.to(memory_format=torch.channels_last)
        trained = DDP(model) if is_ddp else model
        optimizer = sgd(model, weight_decay=0.5)
        with tw.attach(trained, "topk:density=0.3", optimizer=optimizer, steps=4):
            for step in range(4):
                generator = torch.Generator().manual_seed(10 * step + rank)
                inputs = torch.randn(4, 3, 8, 8, generator=generator)
                optimizer.zero_grad()
                trained(inputs).square().mean().backward()
                if not is_ddp:
                    tw.reduce_gradients(trained)
                optimizer.step()
        results.append(flat(model))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-6)


def case_a_model_outlives_its_exchange(rank: int, size: int) -> None:
    model = DDP(make_model())
    optimizer = sgd(model)
    wire = tw.attach(model, "topk", optimizer=optimizer, steps=STEPS)
    assert_raises(tw.UsageError, "attached already", lambda: tw.attach(model, "topk", steps=STEPS))
    train(model, optimizer, rank, steps=2)
    wire.close()
    train(model, optimizer, rank, steps=2, first=2)  # as plain DistributedDataParallel
    assert_replicas_identical(model)
    with tw.attach(model, "qsgd", optimizer=optimizer, steps=STEPS):
        train(model, optimizer, rank, steps=2, first=4)
    assert_replicas_identical(model)


def case_a_closed_exchange_does_not_keep_its_model(rank: int, size: int) -> None:
    model = make_model()
    optimizer = sgd(model)
    with tw.attach(model, "topk", optimizer=optimizer, steps=2) as wire:
        train(model, optimizer, rank, steps=2, after=lambda: tw.reduce_gradients(model))
    kept = weakref.ref(model)
    del model, optimizer
    gc.collect()
    assert kept() is None and wire.spec == "topk"


def case_sparse_gradients_are_named(rank: int, size: int) -> None:
    model = DDP(nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 1)))
    wire = tw.attach(model, "topk", steps=5)
    dist.barrier()
    try:
        model(torch.tensor([1, 2])).sum().backward()
    except RuntimeError as error:
        assert "sparse=False" in str(error), error
    else:
        raise AssertionError("no error")
    wire.abort("the test is over")
    dist.barrier()


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int):
        return torch.full((20,), float(index)), torch.zeros(5)


def case_data_loader_workers_are_forked(rank: int, size: int) -> None:
    model = DDP(make_model())
    optimizer = sgd(model)
    with tw.attach(model, "topk", optimizer=optimizer, steps=4):
        for inputs, wanted in torch.utils.data.DataLoader(Numbers(), 2, num_workers=1):
            optimizer.zero_grad()
            ((model(inputs) - wanted) ** 2).mean().backward()
            optimizer.step()
    assert_replicas_identical(model)
