"""SGD and AdamW as ``torch.optim`` has them, with fused updates and, if asked for, states in 8 bits or in host memory.

Both are ``torch.optim.Optimizer``s: schedulers, parameter groups, closures, hooks, ``state_dict``, ``deepcopy`` and
pickling work, and state dictionaries are exchanged with ``torch.optim.SGD`` and ``torch.optim.AdamW`` in both
directions. Parameters are dense ``float32`` tensors on one device; gradients may be ``float32``, ``bfloat16`` or
``float16``. As in torch, a gradient that is not finite reaches the weights.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
from torch.optim.optimizer import ParamsT

from triaccel import _build, _C

__all__ = ["SGD", "AdamW"]

_Placement = dict[torch.Tensor, tuple[str, int]]


class _Bound:
    """A GroupOptimizer over some parameters, and the entries of ``state`` that are views of its memory."""

    def __init__(self, core: Any, params: list[torch.Tensor], entries: list[dict[str, torch.Tensor]]) -> None:
        self.core = core
        self.params = params
        self.entries = entries
        self.device = params[0].device
        self.factors: list[float] | None = None  # that the core has

    def follow(self, factors: list[float] | None) -> None:
        """Learning rates of the layers, as factors; copied to the device only when they change."""
        if factors is not None and factors != self.factors:
            self.core.set_factors(factors)
            self.factors = factors

    def serves(self, params: list[torch.Tensor], state: dict[torch.Tensor, Any]) -> bool:
        """Whether ``params`` are the same, on the same device, and nobody has replaced their state."""
        if len(params) != len(self.params) or params[0].device != self.device:
            return False
        for param, known, entry in zip(params, self.params, self.entries):
            now = state.get(param)
            if param is not known or now is None or any(now.get(name) is not entry[name] for name in entry):
                return False
        return True


class _FusedOptimizer(torch.optim.Optimizer):
    """What SGD and AdamW share.

    ``state[p]`` holds views of the memory that the kernels update. The GroupOptimizer behind them is made when it is
    first needed, and again when parameters were added or state was replaced, as by ``load_state_dict``.
    """

    _moments: ClassVar[tuple[str, ...]]  # our states by the names that torch.optim gives them
    _fixed: ClassVar[dict[str, Any]]  # options of torch.optim that have one value here
    _bound: _Bound | None = None
    _placement: _Placement | None = None  # see place()
    _layer_count: int = 1
    _factors: list[float] | None = None  # see scale_layers()

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        super().__init__(params, {**defaults, **self._fixed, "foreach": None, "fused": None})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Applies the gradients. A ``closure`` is called first, and its loss returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if any(p.grad is not None for p in self._params()):
            bound = self._current(lambda p: p.grad is not None)
            bound.follow(self._factors)
            bound.core.step()
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with options of their own; as in ``torch.optim``."""
        super().add_param_group(param_group)
        try:
            self._check()
        except ValueError:
            self.param_groups.pop()
            raise

    def state_dict(self) -> dict[str, Any]:
        """As in ``torch.optim``. States are ``float32`` here, also those that are kept in 8 bits."""
        kept = self.state
        try:
            self.state = self._portable_state()
            return super().state_dict()
        finally:
            self.state = kept

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads what this class or its counterpart in ``torch.optim`` has saved, into states kept as they are here."""
        for group in state_dict["param_groups"]:
            self._check_options(group)
        own = [{key: group[key] for key in ("state_bits", "state_on_host", "seed")} for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, values in zip(self.param_groups, own):
            group.update(values)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for key, value in self.defaults.items():
                group.setdefault(key, value)
        self._bound = None

    # What triaccel.attach uses.

    def place(self, placement: _Placement | None, layer_count: int = 1) -> None:
        """Names the parameters and the layers whose learning-rate factors and gradient scales they follow."""
        self._placement, self._layer_count, self._bound, self._factors = placement, layer_count, None, None

    def scale_layers(self, factors: list[float]) -> None:
        """Learning rates of the layers from the next step on, as factors."""
        self._factors = factors

    @torch.no_grad()
    def engine(self) -> Any:
        """The GroupOptimizer over all trainable parameters, with the hyperparameters of ``param_groups``.

        Call it before every step: it is another object after parameters or state were replaced. Its ``update`` leaves
        ``counts()``, the number of steps of each parameter, to the caller.
        """
        return self._current(lambda p: p.requires_grad or p.grad is not None).core

    # How states are bound to the kernels.

    def _params(self) -> Iterator[torch.Tensor]:
        return (p for group in self.param_groups for p in group["params"])

    def _current(self, wanted: Callable[[torch.Tensor], bool]) -> _Bound:
        """Binds the parameters that have a state or are wanted now, unless that is done."""
        groups = [[p for p in group["params"] if self.state.get(p) or wanted(p)] for group in self.param_groups]
        params = [p for group in groups for p in group]
        if self._bound is None or not self._bound.serves(params, self.state):
            self._bound = self._bind(groups, params)
        for index, group in enumerate(self.param_groups):
            self._bound.core.set_group(index, self._options(group), float(group["lr"]))
        return self._bound

    def _bind(self, groups: list[list[torch.Tensor]], params: list[torch.Tensor]) -> _Bound:
        self._check()
        names = self._names()
        described = []
        for group, members in zip(self.param_groups, groups):
            described.append((self._options(group), [(names[p][0], p, names[p][1]) for p in members]))
        core = _C.GroupOptimizer(described, self._layer_count)
        counts = core.counts()
        bits = {p: group["state_bits"] for group in self.param_groups for p in group["params"]}
        entries = []
        for i, param in enumerate(params):
            old = self.state.get(param) or {}
            for moment, name in enumerate(self._moments):
                if isinstance(old.get(name), torch.Tensor):
                    core.load_moment(i, moment, old[name])
            entry = dict(zip(self._moments, core.moments(i)))
            counts[i] = float(old.get("step", 0))
            if self._counts_steps or bits[param] == 8:
                entry["step"] = counts[i]
            entries.append(entry)
        for param, entry in zip(params, entries):
            self.state[param] = {**(self.state.get(param) or {}), **entry}
        return _Bound(core, params, entries)

    def _portable_state(self) -> defaultdict[torch.Tensor, Any]:
        """``state`` with 8-bit states decoded."""
        if not any(isinstance(e, dict) and self._is_encoded(e) for e in self.state.values()):
            return self.state
        with torch.no_grad():
            bound = self._current(lambda p: False)  # binds again what was copied or unpickled
            portable = defaultdict(dict, self.state)
            for i, param in enumerate(bound.params):
                if self._is_encoded(self.state[param]):
                    portable[param] = {**self.state[param], **dict(zip(self._moments, bound.core.moment_values(i)))}
        return portable

    def _is_encoded(self, entry: dict[str, Any]) -> bool:
        state = entry.get(self._moments[0])
        return isinstance(state, torch.Tensor) and state.dtype == torch.uint8

    def _names(self) -> _Placement:
        if self._placement is not None:
            return self._placement
        names: _Placement = {}
        for index, group in enumerate(self.param_groups):
            for i, param in enumerate(group["params"]):
                names[param] = (f"{group['param_names'][i] if 'param_names' in group else i} of group {index}", 0)
        return names

    # Checks, each of which says one sentence.

    _counts_steps: ClassVar[bool]

    def _options(self, group: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _check_options(self, group: dict[str, Any]) -> None:
        for key, value in self._fixed.items():
            if group.get(key, value) != value:
                raise ValueError(f"triaccel.optim.{type(self).__name__} has no {key}, got {key}={group[key]}")
        if group.get("state_bits", 32) not in (8, 32):
            raise ValueError(f"state_bits must be 8 or 32, got {group['state_bits']}")
        if group.get("state_on_host") and group.get("state_bits", 32) == 8:
            raise ValueError("state_on_host keeps states in 32 bits; omit it or state_bits=8")
        if not float(group["lr"]) >= 0:
            raise ValueError(f"lr must not be negative, got {group['lr']}")

    def _check(self) -> None:
        who = f"triaccel.optim.{type(self).__name__}"
        for group in self.param_groups:
            self._check_options(group)
            self._options(group)
        devices = sorted({str(p.device) for p in self._params()})
        if len(devices) > 1:
            raise ValueError(f"{who}: the parameters are on {' and '.join(devices)}; use one optimizer per device")
        if devices and devices[0].startswith("cuda") and _build.CUDA_MAJOR is None:
            raise ValueError(
                f"{who}: triaccel was built without CUDA, but the parameters are on {devices[0]};"
                f" rebuild it with: TRIACCEL_CUDA=ON pip install --no-build-isolation {_build.SOURCE}"
            )
        for param in self._params():
            if param.dtype != torch.float32:
                raise ValueError(f"{who}: parameters must be torch.float32, got one of {param.dtype}")


class SGD(_FusedOptimizer):
    """Stochastic gradient descent with momentum, as ``torch.optim.SGD`` with ``dampening=0``.

    Args:
        params: parameters or parameter groups; groups may have values of their own for all options
        lr: learning rate
        momentum: in [0, 1); the buffer is kept at 0, too
        weight_decay: added to the gradient, times the weight
        nesterov: Nesterov momentum
        state_bits: 32, or 8 for a momentum buffer of a quarter of the size
        state_on_host: keep the momentum buffer in pinned host memory, which a GPU reads and writes over the bus
        seed: of the stochastic rounding of 8-bit states
    """

    _moments = ("momentum_buffer",)
    _fixed = {"dampening": 0, "maximize": False, "differentiable": False}
    _counts_steps = False  # but for the rounding of 8-bit states

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        state_bits: int = 32,
        state_on_host: bool = False,
        seed: int = 0,
    ) -> None:
        defaults = dict(lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)
        super().__init__(params, {**defaults, "state_bits": state_bits, "state_on_host": state_on_host, "seed": seed})

    def _options(self, group: dict[str, Any]) -> Any:
        if not 0 <= group["momentum"] < 1:
            raise ValueError(f"momentum must be in [0, 1), got {group['momentum']}")
        if not group["weight_decay"] >= 0:
            raise ValueError(f"weight_decay must not be negative, got {group['weight_decay']}")
        if group["nesterov"] and group["momentum"] == 0:
            raise ValueError("nesterov needs a momentum above 0")
        return _C.OptimizerOptions.sgd(
            state_bits=group["state_bits"],
            state_on_host=group["state_on_host"],
            momentum=group["momentum"],
            nesterov=group["nesterov"],
            weight_decay=group["weight_decay"],
            seed=group["seed"],
        )


class AdamW(_FusedOptimizer):
    """Adam with decoupled weight decay, as ``torch.optim.AdamW``.

    Args:
        params: parameters or parameter groups; groups may have values of their own for all options
        lr: learning rate
        betas: decay of the running averages of the gradient and its square, in [0, 1)
        eps: added to the denominator, above 0
        weight_decay: fraction of a weight, times the learning rate, that is removed per step
        state_bits: 32, or 8 for both running averages in a quarter of the size
        state_on_host: keep both in pinned host memory, which a GPU reads and writes over the bus
        seed: of the stochastic rounding of 8-bit states
    """

    _moments = ("exp_avg", "exp_avg_sq")
    _fixed = {
        "amsgrad": False,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": True,
    }
    _counts_steps = True

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        state_bits: int = 32,
        state_on_host: bool = False,
        seed: int = 0,
    ) -> None:
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, capturable=False)
        super().__init__(params, {**defaults, "state_bits": state_bits, "state_on_host": state_on_host, "seed": seed})

    def _options(self, group: dict[str, Any]) -> Any:
        for beta in group["betas"]:
            if not 0 <= beta < 1:
                raise ValueError(f"betas must be in [0, 1), got {beta}")
        if not group["eps"] > 0:
            raise ValueError(f"eps must be positive, got {group['eps']}")
        if not group["weight_decay"] >= 0:
            raise ValueError(f"weight_decay must not be negative, got {group['weight_decay']}")
        return _C.OptimizerOptions.adamw(
            state_bits=group["state_bits"],
            state_on_host=group["state_on_host"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            epsilon=group["eps"],
            weight_decay=group["weight_decay"],
            seed=group["seed"],
        )
