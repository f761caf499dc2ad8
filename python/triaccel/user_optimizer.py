"""What the control loop needs of an optimizer that the user has made."""
from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from triaccel import optim


def check_parameters(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> None:
    """Raises a ValueError where it holds others than these."""
    own = {id(parameter) for parameter in parameters}
    foreign = sum(id(p) not in own for group in optimizer.param_groups for p in group["params"])
    if foreign:
        raise ValueError(f"the optimizer holds {foreign} parameters that are not the model's")


def warn_of_partial_updates(optimizer: torch.optim.Optimizer, stacklevel: int) -> None:
    """Where a step of it allocates memory also when its state exists: then it may happen in part."""
    if isinstance(optimizer, (optim.SGD, optim.AdamW)) or all(group.get("fused") for group in optimizer.param_groups):
        return
    warnings.warn(
        f"{type(optimizer).__name__} allocates memory while it updates weights: where that fails, a step may be applied"
        " in part; use fused=True or triaccel.optim", RuntimeWarning, stacklevel=stacklevel)


def step_counts(optimizer: torch.optim.Optimizer) -> dict[Any, float | None]:
    """The parameters that have a state, with their counts of steps where those are in host memory: the only thing that
    an update changes before it may run out of memory. On a GPU counting allocates nothing."""
    counts = {}
    for parameter, state in optimizer.state.items():
        step = state.get("step") if isinstance(state, dict) else None
        counts[parameter] = step.item() if isinstance(step, torch.Tensor) and step.device.type == "cpu" else None
    return counts


def rate_of(optimizer: torch.optim.Optimizer | None) -> float:
    """Its learning rate, where the host knows it."""
    rate = optimizer.param_groups[0]["lr"] if optimizer is not None else 0.0
    return 0.0 if isinstance(rate, torch.Tensor) else float(rate)


@contextlib.contextmanager
def scaled_rates(optimizer: torch.optim.Optimizer, scale: float) -> Iterator[None]:
    """Learning rates times a factor, and then again what the schedule has set."""
    rates = [group["lr"] for group in optimizer.param_groups]
    if scale != 1:
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * scale
    try:
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate
