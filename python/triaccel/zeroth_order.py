"""Training without backpropagation, or with it in the last layers only.

>>> zo = triaccel.zeroth_order(model, lr=2e-5, backprop_layers=2, backprop_lr=1e-2)
>>> for batch in loader:
...     loss = zo.step(batch, lambda b: criterion(model(b["x"]), b["y"]))
"""
from __future__ import annotations

from typing import Any

import torch

from triaccel import _C
from triaccel.arguments import device_of
from triaccel.attach import Closure
from triaccel.batch_parts import part_of, samples_in
from triaccel.layers import Layers

__all__ = ["ZerothOrder", "zeroth_order"]


class ZerothOrder:
    """A model under zeroth-order training: made by :func:`zeroth_order`. ``lr`` and ``backprop_lr`` may be changed."""

    def __init__(self, session: Any, lr: float, backprop_lr: float) -> None:
        self._session = session
        self.lr = lr
        self.backprop_lr = backprop_lr

    def step(self, batch: Any, closure: Closure) -> torch.Tensor:
        """Trains one batch and returns its mean loss, on the device.

        ``closure(part)`` runs several times, each time with the weights moved a little: it must draw random numbers only
        from torch's generators, which are set back in between. When it raises, everything is as before the step.
        """
        samples = samples_in(batch)
        return self._session.step(samples, lambda first, count: closure(part_of(batch, first, count, samples)),
                                  self.backprop_lr, self.lr)


def zeroth_order(model: torch.nn.Module, *, lr: float | None = None, epsilon: float = 5e-3, directions: int = 1,
                 backprop_layers: int = 0, backprop_lr: float = 1e-2, momentum: float = 0.9, weight_decay: float = 0.0,
                 pass_size: int = 0, seed: int = 1) -> ZerothOrder:
    """Trains a model by zeroth-order estimates (SPSA), in the memory of inference.

    lr, epsilon, directions: learning rate (default: 6e-5, with ``backprop_layers`` 2e-5, as in the command line), size of
    the moves, and random directions averaged in each step.
    backprop_layers: how many of the last layers learn by backpropagation (ElasticZO) with SGD, its ``backprop_lr``,
    ``momentum`` and ``weight_decay``.
    pass_size: samples of a forward pass; 0: the whole batch.

    Weights of zeroth-order layers are rounded to a grid once, so that moving them back is exact.
    """
    if lr is None:
        lr = 2e-5 if backprop_layers else 6e-5
    found = Layers(model)
    trained = [entry for entry in found.parameters if entry[1].requires_grad]
    if not trained:
        raise ValueError("the model has no parameters that require gradients")
    device_of([parameter for _, parameter, _ in found.parameters])
    session = _C.ZerothOrderSession(trained, list(model.buffers()), len(found.layers), backprop_layers, epsilon, directions,
                                    momentum, weight_decay, pass_size, seed)
    return ZerothOrder(session, lr, backprop_lr)
