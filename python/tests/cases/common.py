"""The models, data and checks that the cases use."""

from __future__ import annotations

from typing import Callable, Optional

import torch
import torch.distributed as dist
from torch import nn

STEPS = 6


class Skip(Exception):
    """The case needs something that this torch does not have."""


def end_process_group() -> None:
    """Ends torch's process group, as a program should before it ends.

    Without this, torch 2.x may abort while the interpreter ends, if a thread of Gloo still holds the
    tensors of the last collective operation (pytorch#190489). In torch 1.13 the call may hang.
    """
    if not torch.__version__.startswith("1."):
        dist.destroy_process_group()


def make_model(seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5)
    )


def batch(rank: int, step: int, dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(16, 20, generator=generator)
    return inputs.to(dtype), (inputs[:, :5] > 0).to(dtype)


def loss_of(model: nn.Module, rank: int, step: int, dtype: torch.dtype = torch.float32):
    inputs, wanted = batch(rank, step, dtype)
    return ((model(inputs) - wanted) ** 2).mean()


def train(model, optimizer, rank: int, steps: int = STEPS, first: int = 0, after: Optional[Callable] = None):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss = loss_of(model, rank, step)
        loss.backward()
        if after is not None:
            after()
        optimizer.step()
    return loss.item()


def sgd(model: nn.Module, **options) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), **{"lr": 0.05, "momentum": 0.9, **options})


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1).float() for p in model.parameters()])


def assert_replicas_identical(model: nn.Module) -> None:
    own = flat(model)
    all_of_them = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, own)
    for other in all_of_them:
        assert torch.equal(own, other), "replicas differ"


def assert_raises(kind: type, part: str, call: Callable) -> None:
    try:
        call()
    except kind as error:
        assert part in str(error), f"{part!r} is not in {str(error)!r}"
        return
    raise AssertionError(f"no {kind.__name__}")
