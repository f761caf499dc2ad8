"""Models under torch.compile: precisions by torch.autocast, which it can trace."""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch

MOST_CHANGES = 4  # of the plan: each is a recompilation, and torch gives up after eight


def is_compiled(model: torch.nn.Module) -> bool:
    """Whether torch.compile has compiled the model or a part of it."""
    wrapper = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", ())  # not loaded: nothing is
    return any(isinstance(module, wrapper) or module._compiled_call_impl is not None for module in model.modules())


def _widened(value: Any) -> Any:
    narrow = isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if narrow else value


def difference_of(loss: torch.Tensor, gradients: list[torch.Tensor | None], other_loss: torch.Tensor,
                  other_gradients: list[torch.Tensor | None], what: str = "gradient") -> str:
    """What is different in two runs of a step, which may round and drop differently; empty: nothing."""
    a, b = loss.item(), other_loss.item()
    if not abs(a - b) <= 0.05 * abs(a) + 1e-3:
        return f"its loss is {b:.4g} instead of {a:.4g}"
    if [g is None for g in gradients] != [g is None for g in other_gradients]:
        return "other parameters have gradients"
    products = [0.0, 0.0, 0.0]
    for x, y in zip(gradients, other_gradients):
        if x is not None and y is not None:
            y = y.cpu()
            for i, (p, q) in enumerate(((x, y), (x, x), (y, y))):
                products[i] += torch.dot(p.flatten().double(), q.flatten().double()).item()
    if products[1] == products[2] == 0:
        return ""
    cosine = products[0] / max((products[1] * products[2]) ** 0.5, 1e-300)
    return f"its {what} has a cosine of {cosine:.3f} with that of an eager step" if not cosine >= 0.9 else ""


class _InFp32:
    """The forward function of a layer that stays in FP32 where others are autocast."""

    def __init__(self, module: torch.nn.Module, device: str) -> None:
        self._plain = module.forward
        self._replaced = module.__dict__.get("forward")  # the user may have set one
        self._device = device

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(self._device, enabled=False):
            return self._plain(*[_widened(value) for value in args],
                               **{name: _widened(value) for name, value in kwargs.items()})


def _restore_forward(module: torch.nn.Module) -> None:
    forward = module.__dict__.get("forward")
    if isinstance(forward, _InFp32):
        del module.forward
        if forward._replaced is not None:
            module.forward = forward._replaced


class CompiledPrecision:
    """The precision of every layer in a compiled model: BF16 by autocast, FP32 for those that are exempt from it."""

    def __init__(self, model: torch.nn.Module, layers: list[str], device: str) -> None:
        self._model = model
        modules = dict(model.named_modules())
        self._modules = {name: modules[name] for name in layers if name in modules}
        self._device = device
        self._precisions: dict[str, str] = {}
        self._changes = -1  # the first plan is none
        self._compiled_here = False

    def follow(self, precisions: dict[str, str]) -> bool:
        """What the next passes do. False: this was the last change there can be."""
        if precisions != self._precisions:
            self._precisions = dict(precisions)
            self._changes += 1
            for name, module in self._modules.items():
                _restore_forward(module)
                if self._autocasts() and precisions[name] == "fp32":
                    module.forward = _InFp32(module, self._device)
        return self._changes < MOST_CHANGES

    def _autocasts(self) -> bool:
        return "bf16" in self._precisions.values()

    @contextlib.contextmanager
    def passes(self) -> Iterator[None]:
        """Around forward passes."""
        with torch.autocast(self._device, torch.bfloat16, enabled=self._autocasts()):
            yield

    def compile(self) -> None:
        """Compiles the model in place. Shapes are fixed: a last batch of another size is compiled on its own."""
        self._model.compile(dynamic=False)
        self._compiled_here = True

    def end(self) -> None:
        """Leaves the model as it was."""
        for module in self._modules.values():
            _restore_forward(module)
        self.give_up()

    def give_up(self) -> None:
        if self._compiled_here:
            self._model._compiled_call_impl = None
            self._compiled_here = False
