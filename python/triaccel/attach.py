"""The control loop around a training loop of your own.

>>> ta = triaccel.attach(model, optimizer, budget="6GB")
>>> for batch in loader:
...     loss = ta.step(batch, lambda b: criterion(model(b[0]), b[1]))
...     scheduler.step()
"""
from __future__ import annotations

import contextlib
import logging
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union

import torch
from torch.utils import _pytree as pytree

from triaccel import _C, optim

Loss = Union[torch.Tensor, "tuple[torch.Tensor, torch.Tensor | float]"]
Closure = Callable[[Any], Loss]

_C.install_cpu_memory()  # counts what is allocated from here on

_log = logging.getLogger("triaccel")  # decisions, at level INFO
_attached: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()

_KINDS = ((torch.nn.modules.conv._ConvNd, "convolution"), (torch.nn.Embedding, "embedding"))


def _kind_of(module: torch.nn.Module) -> str:
    return next((kind for base, kind in _KINDS if isinstance(module, base)), "linear")


class _Layers:
    """The trainable parameters of a model, in layers: each matrix or kernel starts one, and what follows belongs to it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.parameters: list[tuple[str, torch.Tensor, int]] = []
        self.layers: list[tuple[str, str, list[str], torch.Tensor]] = []
        early: list[tuple[str, torch.Tensor]] = []  # before the first layer
        seen: set[int] = set()
        for module_name, module in model.named_modules():
            for own_name, parameter in module.named_parameters(recurse=False):
                if id(parameter) in seen:
                    continue
                seen.add(id(parameter))
                name = f"{module_name}.{own_name}" if module_name else own_name
                if parameter.dim() >= 2 and parameter.dtype == torch.float32:
                    self.layers.append((module_name or own_name, _kind_of(module), [], parameter))
                if self.layers:
                    self._add(name, parameter)
                else:
                    early.append((name, parameter))
        if not self.layers and early:  # vectors alone
            self.layers.append(("all", "linear", [], early[0][1]))
        for name, parameter in early:
            self.parameters.append((name, parameter, 0))
            self.layers[0][2].append(name)

    def _add(self, name: str, parameter: torch.Tensor) -> None:
        self.layers[-1][2].append(name)
        self.parameters.append((name, parameter, len(self.layers) - 1))


def _leaves(batch: Any) -> list[Any]:
    if isinstance(batch, Mapping) and not isinstance(batch, dict):
        batch = dict(batch)  # such as transformers' BatchEncoding
    return pytree.tree_leaves(batch)


def _samples_in(batch: Any) -> int:
    """The size of the first dimension, which all tensors of a batch share."""
    sizes = {leaf.shape[0] for leaf in _leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.dim() > 0}
    if not sizes:
        raise ValueError("the batch holds no tensor with samples in its first dimension")
    if len(sizes) > 1:
        raise ValueError(
            f"the tensors of the batch have different first dimensions, {', '.join(map(str, sorted(sizes)))};"
            " put samples in the first dimension of each, or keep what is no sample out of the batch"
        )
    size = sizes.pop()
    if size == 0:
        raise ValueError("the batch has no samples")
    return size


def _part_of(batch: Any, first: int, count: int, samples: int) -> Any:
    if first == 0 and count == samples:
        return batch
    if isinstance(batch, Mapping) and not isinstance(batch, dict):
        batch = dict(batch)

    def part(leaf: Any) -> Any:
        return leaf.narrow(0, first, count) if isinstance(leaf, torch.Tensor) and leaf.dim() > 0 else leaf

    return pytree.tree_map(part, batch)


def _updates_at_once(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step of it allocates nothing once its state exists, so that it happens whole or not at all."""
    if isinstance(optimizer, (optim.SGD, optim.AdamW)):
        return True
    return all(group.get("fused") for group in optimizer.param_groups)


def _step_counts(optimizer: torch.optim.Optimizer) -> dict[Any, float | None]:
    """The parameters that have a state, with their counts of steps where those are in host memory: the only thing that
    an update changes before it may run out of memory. On a GPU counting allocates nothing."""
    counts = {}
    for parameter, state in optimizer.state.items():
        step = state.get("step") if isinstance(state, dict) else None
        counts[parameter] = step.item() if isinstance(step, torch.Tensor) and step.device.type == "cpu" else None
    return counts


class Attached:
    """A model under control: made by :func:`attach`."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, session: Any,
                 parameters: list[torch.Tensor], callbacks: list[Callable[[dict[str, Any]], None]]) -> None:
        self._model = model
        self._optimizer = optimizer
        self._session = session
        self._parameters = parameters
        self._callbacks = callbacks

    # -- one step ---------------------------------------------------------------------------------------------------

    def step(self, batch: Any, closure: Closure) -> torch.Tensor:
        """Trains one batch: forward, backward, update. Returns the mean loss, on the device, without waiting for it.

        ``closure(part)`` computes the loss of a part of the batch: a mean over its samples, or a pair ``(sum, count)``.
        It may run more than once. Gradients that were there before are dropped, and none are left. When memory is short
        the batch goes through in smaller parts; where not even the smallest fits, ``torch.OutOfMemoryError`` is raised and
        weights, buffers, optimizer and random generators are as before.
        """
        if self._optimizer is None:
            raise ValueError("attach() was given no optimizer; use backward(), or attach(model, optimizer)")
        session = self._open()
        samples = _samples_in(batch)
        self._drop_gradients()
        loss = self._run(session, batch, closure, samples)
        try:
            self._update(session)
            self._finish(session)
        finally:
            self._drop_gradients()
        return loss

    def backward(self, batch: Any, closure: Closure) -> torch.Tensor:
        """Adds the gradients of a batch to ``.grad``, as ``loss.backward()`` does, and updates nothing.

        For loops that clip, log or step themselves, for several optimizers, and for adversarial training.
        """
        session = self._open()
        samples = _samples_in(batch)
        held = [(parameter, parameter.grad) for parameter in self._parameters]
        self._drop_gradients()
        try:
            loss = self._run(session, batch, closure, samples)
        except BaseException:
            for parameter, gradient in held:
                parameter.grad = gradient
            raise
        with torch.no_grad():
            for parameter, gradient in held:
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else gradient.add_(parameter.grad)
        self._finish(session)
        return loss

    def _run(self, session: Any, batch: Any, closure: Closure, samples: int) -> torch.Tensor:
        return session.backward(samples, lambda first, count: closure(_part_of(batch, first, count, samples)))

    def _update(self, session: Any) -> None:
        optimizer = self._optimizer
        assert optimizer is not None
        counts = _step_counts(optimizer)
        try:
            optimizer.step()
        except torch.OutOfMemoryError:
            for parameter in [parameter for parameter in optimizer.state if parameter not in counts]:
                del optimizer.state[parameter]
            for parameter, count in counts.items():
                if count is not None:
                    optimizer.state[parameter]["step"].fill_(count)
            session.take_back()
            raise

    def _finish(self, session: Any) -> None:
        session.finish_step()
        for notice in session.take_notices():
            warnings.warn(notice, RuntimeWarning, stacklevel=4)
        for event in session.take_events():
            _log.info(event)
        report = session.take_decided() if self._callbacks else None
        if report is not None:
            for callback in self._callbacks:
                callback(report)

    def _drop_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    # -- what is going on -------------------------------------------------------------------------------------------

    @property
    def plan(self) -> dict[str, Any]:
        """What the next step does: its pass size and the precision of every layer."""
        return self._open().plan()

    def report(self) -> dict[str, Any]:
        """What happened since the last report: loss, times, memory. Waits for the device."""
        return self._open().report()

    @contextlib.contextmanager
    def precision(self) -> Iterator[None]:
        """Forward passes inside compute as the plan says, for instance in an evaluation."""
        session = self._open()
        session.enter_precision()
        try:
            yield
        finally:
            session.leave_precision()

    def state_dict(self) -> dict[str, Any]:
        """The state of the control loop, for checkpoints; the model's and the optimizer's are their own."""
        return self._open().state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._open().restore(state)

    def detach(self) -> None:
        """Ends the control and lifts the budget. Model and optimizer stay as they are."""
        self._session = None
        _attached.discard(self._model)

    def _open(self) -> Any:
        if self._session is None:
            raise RuntimeError("this model is detached; call triaccel.attach() again")
        return self._session


def _device_of(parameters: list[torch.Tensor]) -> torch.device:
    devices = sorted({str(parameter.device) for parameter in parameters})
    if len(devices) > 1:
        raise ValueError(f"the model's parameters are on several devices, {' and '.join(devices)}; move it to one")
    return parameters[0].device


def attach(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None, *, budget: str | int | None = None,
           precision: str = "auto", activations: str = "raw", activation_ratio: float = 10.2, policy: str = "robust",
           control_interval: int = 10,
           callbacks: list[Callable[[dict[str, Any]], None]] | None = None) -> Attached:
    """Puts a model's training under control of Tri-Accel, without changing the model, the loader or the scheduler.

    budget: most memory for all tensors on the model's device, such as ``"6GB"``, ``"80%"`` or a number of bytes.
    precision: ``"auto"`` chooses BF16 or FP32 for every layer as it trains; ``"bf16"``, ``"fp32"``; ``"off"`` leaves all
    operators to torch.
    activations: how they are kept for backward: ``"raw"``; ``"lossless"``, smaller and with the same gradients;
    ``"compressed"`` to ``activation_ratio`` (FP32 bytes over bytes kept), which adds noise to the gradients.
    policy: ``"robust"``, or ``"paper"`` for the rules of the Tri-Accel paper.
    control_interval: steps between two decisions.
    callbacks: each is called with a report after every decision.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"attach() needs a torch.nn.Module, got {type(model).__name__}")
    if model in _attached:
        raise ValueError("this model is attached already; call detach() on its handle first")
    found = _Layers(model)
    parameters = [parameter for _, parameter, _ in found.parameters]
    if not any(parameter.requires_grad for parameter in parameters):
        raise ValueError("the model has no parameters that require gradients")
    _device_of(parameters)
    if optimizer is not None:
        own = {id(parameter) for parameter in parameters}
        foreign = sum(id(p) not in own for group in optimizer.param_groups for p in group["params"])
        if foreign:
            raise ValueError(f"the optimizer holds {foreign} parameters that are not the model's")
    norms = any(isinstance(module, torch.nn.modules.batchnorm._NormBase) for module in model.modules())
    measured = [entry for entry in found.parameters if entry[1].requires_grad and entry[1].dtype == torch.float32]
    session = _C.Session(measured, [b for b in model.buffers()], found.layers,
                         "none" if budget is None else str(budget), precision, policy, control_interval, 2 if norms else 1,
                         activations, activation_ratio)
    if optimizer is not None and budget is not None and not _updates_at_once(optimizer):
        warnings.warn(
            f"{type(optimizer).__name__} allocates memory while it updates weights: where that fails, a step may be applied"
            " in part; use fused=True or triaccel.optim", RuntimeWarning, stacklevel=2)
    _attached.add(model)
    return Attached(model, optimizer, session, parameters, list(callbacks or []))
