"""What the control loop needs of an optimizer that the user has made."""
from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from triaccel import optim


def unwrapped(optimizer: torch.optim.Optimizer | None) -> torch.optim.Optimizer | None:
    """Not what Accelerate has made of it, which hides its type and leaves out updates inside ``accelerator.accumulate``."""
    return optimizer.optimizer if type(optimizer).__module__.partition(".")[0] == "accelerate" else optimizer


def check_parameters(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> None:
    """Raises a ValueError where it holds others than these."""
    own = {id(parameter) for parameter in parameters}
    foreign = sum(id(p) not in own for group in optimizer.param_groups for p in group["params"])
    if foreign:
        raise ValueError(f"the optimizer holds {foreign} parameters that are not the model's")


class ParameterWatch:
    """Notices parameters that an optimizer gets later."""

    def __init__(self, optimizer: torch.optim.Optimizer | None, parameters: list[torch.Tensor]) -> None:
        self._groups = optimizer.param_groups if optimizer is not None else []
        self._optimizer, self._parameters = optimizer, parameters
        self._count = self._size()

    def _size(self) -> int:
        return sum(len(group["params"]) for group in self._groups)

    def check(self) -> None:
        """Raises a ValueError where some are not the model's as it was attached."""
        if self._optimizer is None or self._size() == self._count:
            return
        try:
            check_parameters(self._optimizer, self._parameters)
        except ValueError as error:
            raise ValueError(f"{error}, as it was attached; detach(), then attach it again") from None
        self._count = self._size()


def warn_of_partial_updates(optimizer: torch.optim.Optimizer, stacklevel: int) -> None:
    """Where a step of it allocates memory also when its state exists: then it may happen in part."""
    if isinstance(optimizer, (optim.SGD, optim.AdamW)) or all(group.get("fused") for group in optimizer.param_groups):
        return
    warnings.warn(
        f"{type(optimizer).__name__} allocates memory while it updates weights: where that fails, a step may be applied"
        " in part; use fused=True or triaccel.optim", RuntimeWarning, stacklevel=stacklevel)


class OptimizerBefore:
    """An optimizer before an update that may fail."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._versions = [(p, p._version) for group in optimizer.param_groups for p in group["params"]]
        # Counts of steps in host memory are the only thing that an update changes before it may run out of memory. On a GPU
        # counting allocates nothing.
        self._counts: dict[Any, float | None] = {}
        for parameter, state in optimizer.state.items():
            step = state.get("step") if isinstance(state, dict) else None
            in_host_memory = isinstance(step, torch.Tensor) and step.device.type == "cpu"
            self._counts[parameter] = step.item() if in_host_memory else None

    def put_back(self) -> bool:
        """False: weights have been updated, and all stays as it is."""
        if any(parameter._version != version for parameter, version in self._versions):
            return False
        for parameter in [parameter for parameter in self._optimizer.state if parameter not in self._counts]:
            del self._optimizer.state[parameter]
        for parameter, count in self._counts.items():
            if count is not None:
                self._optimizer.state[parameter]["step"].fill_(count)
        return True


@contextlib.contextmanager
def gradients_aside(parameters: list[torch.Tensor]) -> Iterator[None]:
    """None inside; those from before again at the end."""
    held = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in zip(parameters, held):
            parameter.grad = gradient


@contextlib.contextmanager
def gradients_added(parameters: list[torch.Tensor]) -> Iterator[None]:
    """None inside; what is there at the end is added to those from before, which an error leaves as they were."""
    held = [(parameter, parameter.grad) for parameter in parameters]
    with gradients_aside(parameters):
        yield
        made = [parameter.grad for parameter in parameters]
    with torch.no_grad():
        for (parameter, gradient), added in zip(held, made):
            if added is not None:
                parameter.grad = added if gradient is None else gradient.add_(added)


def rate_of(optimizer: torch.optim.Optimizer | None) -> float:
    """Its learning rate, where the host knows it."""
    rate = optimizer.param_groups[0].get("lr") if optimizer is not None else 0.0
    return float(rate) if isinstance(rate, (int, float)) else 0.0


@contextlib.contextmanager
def scaled_rates(optimizer: torch.optim.Optimizer, scale: float) -> Iterator[None]:
    """Learning rates times a factor, and then again what the schedule has set, unless a hook has set others meanwhile."""
    if scale == 1:
        yield
        return
    changed = [(group, group["lr"], group["lr"] * scale) for group in optimizer.param_groups if group.get("lr") is not None]
    for group, _, scaled in changed:
        group["lr"] = scaled
    try:
        yield
    finally:
        for group, rate, scaled in changed:
            if group["lr"] is scaled:
                group["lr"] = rate
