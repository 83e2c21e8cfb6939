"""Cases: parameters that some ranks, or none, use in a step."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import thinwire.torch as tw
from cases.common import assert_replicas_identical, flat, loss_of, sgd


def in_layout(wire: tw.GradientExchange, values: torch.Tensor) -> torch.Tensor:
    """Returns values in the order of model.parameters() in that of the exchange: the last first."""
    parts = values.split([p.numel() for p in reversed(wire._layout.parameters)])
    return torch.cat(parts[::-1])


def wire_residual(state: dict, numel: int) -> torch.Tensor:
    """Returns the residual in the saved state of a sparse strategy with one bucket.

    The state of a session: version (4 bytes), number of buckets and length of the state (8 each);
    that of a sparse strategy: version (4), number of floats (8), floats.
    """
    offset = 4 + 8 + 8 + 4 + 8
    return state["state"][offset : offset + 4 * numel].clone().view(torch.float32)


class Unused(nn.Module):
    """Uses its second layer in odd steps only."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second, self.last = nn.Linear(20, 30), nn.Linear(30, 30), nn.Linear(30, 5)
        self.step = 0

    def forward(self, inputs):
        hidden = torch.tanh(self.first(inputs))
        if self.step % 2 == 1:
            hidden = torch.tanh(self.second(hidden))
        return self.last(hidden)


def case_unused_parameters_keep_their_residual(rank: int, size: int) -> None:
    model = DDP(Unused(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    total = torch.zeros_like(flat(model))  # of the gradients of this rank
    start = flat(model)
    wire = tw.attach(model, "topk:density=0.1,values=fp32,warmup=none", optimizer=optimizer, steps=8)
    for step in range(8):
        model.module.step = step
        local = torch.autograd.grad(
            loss_of(model.module, rank, step), list(model.parameters()), allow_unused=True
        )
        pairs = zip(local, model.parameters())
        total += torch.cat([(torch.zeros_like(p) if g is None else g).reshape(-1) for g, p in pairs])
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, rank, step).backward()
        is_used = [p.grad is not None for p in model.module.second.parameters()]
        assert is_used == [step % 2 == 1] * 2, is_used
        optimizer.step()
    assert_replicas_identical(model)
    # What was not delivered to the second layer is the same on all ranks, and is delivered in the
    # next step that uses the layer.
    state = wire.state_dict()
    undelivered = state["undelivered"]
    everyone = [torch.empty_like(undelivered) for _ in range(size)]
    dist.all_gather(everyone, undelivered)
    assert all(torch.equal(undelivered, other) for other in everyone)
    wire.close()
    # Nothing was lost: what was applied, what was not delivered and the residuals of all ranks are
    # the gradients of all ranks.
    applied = (start - flat(model)) / 0.05
    held = wire_residual(state, wire._layout.numel)
    dist.all_reduce(held)
    dist.all_reduce(total)
    expected = in_layout(wire, total / size)
    found = in_layout(wire, applied) + undelivered + held / size
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def case_weight_decay_spares_unused_parameters(rank: int, size: int) -> None:
    module = Unused()
    model = DDP(module, find_unused_parameters=True)
    optimizer = sgd(model, weight_decay=0.1)
    before = module.second.weight.clone()
    with tw.attach(model, "topk", optimizer=optimizer, steps=50):
        for step in range(20):
            module.step = 0 if step < 19 else 1  # the second layer is used in the last step only
            optimizer.zero_grad(set_to_none=True)
            loss_of(model, rank, step).backward()
            optimizer.step()
    assert (module.second.weight - before).norm() < 0.05 * before.norm()
