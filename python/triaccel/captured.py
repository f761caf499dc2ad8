"""Whole steps in CUDA graphs: what a step enqueues is captured once and replayed for all batches of the same shapes."""
from __future__ import annotations

import contextlib
import itertools
import os
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

MOST_SHAPES = 8  # of batches, each with memory of its own


class CannotCapture(ValueError):
    """Why a step stays outside of CUDA graphs, in one sentence."""


def can_capture(device: torch.device) -> bool:
    return device.type == "cuda"


def _description(leaf: Any, device: torch.device) -> Any:
    """All that captured work depends on: for a tensor its layout, for anything else its value."""
    if not isinstance(leaf, torch.Tensor):
        return type(leaf), repr(leaf)
    if leaf.device != device:
        raise CannotCapture(f"a tensor of the batch is on {leaf.device}; move the batch to {device} before step()")
    return leaf.dtype, tuple(leaf.shape), leaf.stride(), leaf.requires_grad


def applied_steps(engine: Any) -> int:
    """Of all parameters, which captured steps count together."""
    if engine is None:
        return 0
    first, last = engine.counts().aminmax()
    if first != last:
        raise CannotCapture(f"some parameters have been updated {int(first)} times and others {int(last)} times")
    return int(last)


class StaticBatches:
    """Copies of batches in memory that stays where it is, one for every shape: captured steps read them there."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._kept: OrderedDict[Any, tuple[int, list[Any], Any]] = OrderedDict()
        self._numbers = itertools.count()

    def place(self, batch: Any, position: int) -> tuple[int, Any]:
        """The copy, with the values of ``batch``, and its number. Batches of one step differ in ``position``."""
        if isinstance(batch, Mapping) and not isinstance(batch, dict):
            batch = dict(batch)
        leaves, tree = pytree.tree_flatten(batch)
        shape = (position, str(tree), *(_description(leaf, self._device) for leaf in leaves))
        if shape in self._kept:
            self._kept.move_to_end(shape)
        else:
            if len(self._kept) == MOST_SHAPES:
                self._kept.popitem(last=False)
            copies = [torch.empty_like(x).requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x
                      for x in leaves]
            self._kept[shape] = (next(self._numbers), copies, pytree.tree_unflatten(copies, tree))
        number, copies, placed = self._kept[shape]
        with torch.no_grad():
            for copy, leaf in zip(copies, leaves):
                if isinstance(leaf, torch.Tensor):
                    copy.copy_(leaf)
        return number, placed


class SavedTraining:
    """Parameters, buffers, optimizer states and generators, in host memory."""

    def __init__(self, parameters: list[torch.Tensor], buffers: list[torch.Tensor], optimizer: Any) -> None:
        self._parameters = parameters
        states = [value for entry in optimizer.state.values() for value in entry.values() if isinstance(value, torch.Tensor)]
        self._tensors = [*parameters, *buffers, *states, optimizer.engine().counts()]
        self._values = [tensor.detach().to("cpu", copy=True) for tensor in self._tensors]
        self._generator = torch.get_rng_state()
        self._device_generators = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def changes(self) -> list[torch.Tensor | None]:
        """What was added to each parameter since."""
        return [now.detach().cpu() - then for now, then in zip(self._parameters, self._values)]

    @torch.no_grad()
    def restore(self) -> None:
        for tensor, values in zip(self._tensors, self._values):
            tensor.copy_(values)
        torch.set_rng_state(self._generator)
        if self._device_generators:
            torch.cuda.set_rng_state_all(self._device_generators)


class CapturedSteps:
    """What the steps of one model need to be captured: a stream, copies of the batches and the optimizer behind them."""

    def __init__(self, optimizer: Any, device: torch.device) -> None:
        self._optimizer = optimizer
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._batches = StaticBatches(device)
        self.engine: Any = None  # behind the optimizer, of the session under way; None: there is no such session yet

    @contextlib.contextmanager
    def on_stream(self) -> Iterator[None]:
        """Only work on a stream of its own can be captured; it comes after the caller's work and before what follows."""
        if self._stream is None:
            yield
            return
        outside = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(outside)
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            outside.wait_stream(self._stream)

    def place(self, parts: list[tuple[Any, int]]) -> tuple[list[tuple[Any, int]], int]:
        """Copies of the batches, and a key that is the same for steps that do the same with them."""
        placed = [(self._batches.place(batch, position), samples) for position, (batch, samples) in enumerate(parts)]
        options = [tuple((name, value) for name, value in group.items() if name not in ("params", "lr"))
                   for group in self._optimizer.param_groups]
        key = hash((repr(options), *(number for (number, _), _ in placed)))
        return [(batch, samples) for (_, batch), samples in placed], key & (2**64 - 1)


@contextlib.contextmanager
def no_synchronization() -> Iterator[None]:
    """Operations that wait for the device raise an error inside: in a captured step they cannot."""
    if not torch.cuda.is_initialized():
        yield
        return
    mode = torch.cuda.get_sync_debug_mode()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that it does not find all of them
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def reason_of(error: BaseException) -> str:
    """Why a capture failed, with the caller's line that caused it."""
    why = str(error).strip().partition("\n")[0] or type(error).__name__
    ours = (os.path.dirname(torch.__file__), os.path.dirname(__file__))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}: {why}" if frames else why
