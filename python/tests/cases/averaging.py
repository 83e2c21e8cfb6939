"""Cases: strategies that exchange models, by average()."""

from __future__ import annotations

import copy
import warnings

import torch
import torch.distributed as dist
from torch import nn

import thinwire
import thinwire.torch as tw
from cases.common import (
    STEPS,
    assert_raises,
    assert_replicas_identical,
    flat,
    loss_of,
    make_model,
    sgd,
    train,
)

MODEL_SPECS = [s["name"] for s in thinwire.strategies() if s["exchanges"] == "models"]


def case_every_model_strategy(rank: int, size: int) -> None:
    for spec in MODEL_SPECS:
        model = make_model(seed=1 + rank)  # rank 0's parameters reach all
        optimizer = tw.average(model, sgd(model), spec, steps=20, samples_per_step=16)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        before = loss_of(model, rank, 100).item()
        for step in range(20):
            optimizer.zero_grad()
            loss_of(model, rank, step).backward()
            optimizer.step()
            scheduler.step()
        assert optimizer.param_groups[0]["lr"] == scheduler.get_last_lr()[0], "the rate changed"
        wire = optimizer.wire
        wire.finish()
        assert_replicas_identical(model)
        assert wire.stats()["steps"] == 20
        assert loss_of(model, rank, 100).item() < before, f"{spec} did not learn"
        wire.close()
        assert not hasattr(optimizer, "wire")
        dist.barrier()


def case_asynchronous_ranks_share_the_samples(rank: int, size: int) -> None:
    model = make_model()
    optimizer = tw.average(model, sgd(model), "lasgd", steps=20, samples=20 * 16 * size, samples_per_step=16)
    steps = 0
    while not optimizer.wire.done:
        optimizer.zero_grad()
        loss_of(model, rank, steps).backward()
        optimizer.step()
        steps += 1
        assert steps < 100_000, "the ranks never were done"
    optimizer.wire.finish()
    optimizer.wire.close()
    assert_replicas_identical(model)


def case_the_strategy_knows_the_momentum(rank: int, size: int) -> None:
    for kind, options, expected in (
        (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}, (0.9, 0.1, True)),
        (torch.optim.AdamW, {"betas": (0.8, 0.99), "weight_decay": 0.1}, (0.8, 0.1, False)),
        (torch.optim.RMSprop, {"momentum": 0.5}, (0.5, 0.0, False)),
    ):
        model = make_model()
        optimizer = tw.average(model, kind(model.parameters(), lr=0.1, **options), "lasgd", steps=5)
        known = optimizer.wire._options
        assert (known["momentum"], known["weight_decay"], known["nesterov"]) == expected
        optimizer.wire.close()
    # It reaches the session, which compares it between the ranks.
    model = make_model()
    own = sgd(model, momentum=0.9 - 0.1 * rank)
    assert_raises(tw.ConfigError, "momentum", lambda: tw.average(model, own, "lasgd", steps=5))


def case_momentum_is_applied_once(rank: int, size: int) -> None:
    """Between two averages every rank trains exactly as torch does."""
    expected = make_model()
    train(expected, sgd(expected, weight_decay=0.01, nesterov=True), rank)
    model = make_model()
    optimizer = sgd(model, weight_decay=0.01, nesterov=True)
    tw.average(model, optimizer, "localsgd:period=1000", steps=STEPS)
    train(model, optimizer, rank)
    assert torch.equal(flat(model), flat(expected))
    optimizer.wire.finish()
    assert_replicas_identical(model)
    optimizer.wire.close()


def case_ranks_of_equal_steps_are_done_together(rank: int, size: int) -> None:
    model = make_model()
    optimizer = sgd(model)
    # The ranks have batches of different size: 16 + 24 examples in each step.
    options = {"samples": 200 if size == 2 else 10_000, "samples_per_step": 16 + 8 * rank}
    tw.average(model, optimizer, "localsgd:period=2", **options)
    steps = 0
    while not optimizer.wire.done:
        train(model, optimizer, rank, steps=1, first=steps)
        steps += 1
        assert steps < 1000, "never done"
    assert steps == 5 or size != 2, steps
    optimizer.wire.finish()
    optimizer.wire.close()
    tw.average(model, optimizer, "localsgd", steps=3)
    for step in range(3):
        assert not optimizer.wire.done
        train(model, optimizer, rank, steps=1, first=step)
    assert optimizer.wire.done
    optimizer.wire.close()
    tw.average(model, optimizer, "localsgd")
    assert_raises(tw.UsageError, "samples= or steps=", lambda: optimizer.wire.done)
    optimizer.wire.close()


def case_parameters_are_not_copied(rank: int, size: int) -> None:
    model = make_model()
    shared = nn.Parameter(torch.zeros(3).share_memory_())  # another process may look at it
    wide = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)
    model.register_parameter("shared", shared)
    model.add_module("wide", wide)
    before = [shared.data_ptr(), wide.weight.data_ptr()]
    optimizer = sgd(model)
    tw.average(model, optimizer, "localsgd:period=2", steps=STEPS)
    buffer = optimizer.wire._parameters
    layout = optimizer.wire._layout
    held = [name for i, name in enumerate(layout.names) if buffer.holds(i, layout.parameters[i])]
    assert len(held) == len(layout.names) - 2, held
    assert before == [shared.data_ptr(), wide.weight.data_ptr()]

    def run(steps: int, first: int) -> None:
        for step in range(first, first + steps):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            loss = loss_of(model[:5], rank, step)
            (loss + (model.shared - 1).square().sum() + model.wide.weight.square().sum()).backward()
            optimizer.step()

    run(4, 0)
    assert_replicas_identical(model)
    # What programs do with parameters goes on to work.
    saved = {name: value.clone() for name, value in model.state_dict().items()}
    run(1, 4)
    model.load_state_dict(saved)
    assert all(torch.equal(value, saved[name]) for name, value in model.state_dict().items())
    copied = copy.deepcopy(model)
    model[0].weight.data = model[0].weight.data.clone()  # no longer a part of the buffer
    assert torch.equal(flat(copied), flat(model))
    run(1, 5)
    assert_replicas_identical(model)
    optimizer.wire.finish()
    assert_replicas_identical(model)
    optimizer.wire.close()
    run(2, 6)


def case_schedules_survive_the_exchange(rank: int, size: int) -> None:
    model = make_model()
    optimizer = sgd(model)
    earlier = torch.optim.lr_scheduler.StepLR(optimizer, 100)
    wrapped = vars(optimizer).get("step")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a schedule warns if it does not see the steps
        for _ in range(2):
            tw.average(model, optimizer, "localsgd", steps=STEPS)
            train(model, optimizer, rank, steps=2)
            earlier.step()
            optimizer.wire.close()
            assert vars(optimizer).get("step") is wrapped, "the schedule no longer sees steps"
        tw.average(model, optimizer, "localsgd", steps=STEPS)
        later = torch.optim.lr_scheduler.StepLR(optimizer, 100)
        train(model, optimizer, rank, steps=2)
        optimizer.wire.close()
        before = flat(model)
        train(model, optimizer, rank, steps=1)  # without an exchange
        later.step()
    assert not torch.equal(before, flat(model))


def case_a_finished_average_continues_from_a_state(rank: int, size: int) -> None:
    for spec in ("localsgd", "lasgd", "gossip"):
        model = make_model()
        optimizer = sgd(model)
        tw.average(model, optimizer, spec, steps=10)
        train(model, optimizer, rank, steps=3)
        state = optimizer.wire.state_dict()
        optimizer.wire.finish()
        assert_raises(tw.UsageError, "after finish()", optimizer.step)
        optimizer.wire.load_state_dict(state)
        train(model, optimizer, rank, steps=3, first=3)
        optimizer.wire.finish()
        assert_replicas_identical(model)
        optimizer.wire.close()
        dist.barrier()


def case_an_average_continues_from_a_checkpoint(rank: int, size: int) -> None:
    """Resumed by a new program: the same result as without an interruption, bit for bit."""

    def run(is_interrupted: bool) -> torch.Tensor:
        model = make_model()
        optimizer = sgd(model)
        tw.average(model, optimizer, "localsgd:period=2", steps=8)
        train(model, optimizer, rank, steps=3)  # in the middle of a period
        if is_interrupted:
            wire = optimizer.wire
            saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), wire.state_dict()))
            wire.close()
            model = make_model(seed=9 + rank)
            optimizer = sgd(model)
            tw.average(model, optimizer, "localsgd:period=2", steps=8)
            model.load_state_dict(saved[0])  # that of this rank, after average()
            optimizer.load_state_dict(saved[1])
            optimizer.wire.load_state_dict(saved[2])
        train(model, optimizer, rank, steps=4, first=3)
        before = flat(model)
        optimizer.wire.finish()
        assert not torch.equal(before, flat(model)), "the models were equal before"
        optimizer.wire.close()
        return flat(model)

    assert torch.equal(run(False), run(True))
