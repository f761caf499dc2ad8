"""Tri-Accel in a Lightning trainer: the precision of every layer and the activations kept for backward.

>>> from triaccel.integrations.lightning import TriaccelCallback
>>> trainer = lightning.Trainer(callbacks=[TriaccelCallback(activations="lossless")])
>>> trainer.fit(module, loader)
"""
from __future__ import annotations

import contextlib
import weakref
from typing import Any

import torch

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
except ImportError:  # the same library under its older name
    from pytorch_lightning import Callback, LightningModule, Trainer
    from pytorch_lightning.utilities.signature_utils import is_param_in_hook_signature

from triaccel.attach import Attached, attach
from triaccel.batch_parts import samples_in

__all__ = ["TriaccelCallback"]


class _NoLoss(Exception):
    """training_step skips the batch."""


class TriaccelCallback(Callback):
    """Puts the module under control of Tri-Accel while it trains. Lightning runs the passes and updates the weights, so a
    batch is never split and there is no budget.

    The options are those of :func:`triaccel.attach`; leave the trainer's ``precision`` at 32 bits. To measure activations,
    ``training_step`` runs an extra time over a few samples, without logging. With manual optimization it would update weights,
    so activations stay ``"raw"`` there.
    """

    def __init__(self, precision: str = "auto", activations: str = "raw", activation_ratio: float | str = 10.2,
                 policy: str = "robust", control_interval: int = 10) -> None:
        self._options = {"precision": precision, "activations": activations, "activation_ratio": activation_ratio,
                         "policy": policy, "control_interval": control_interval}
        self._attached: Attached | None = None
        self._loaded: dict[str, Any] | None = None
        self._module: weakref.ref[LightningModule] | None = None  # that the state is of; None: a checkpoint's
        self._pass = contextlib.ExitStack()
        self._loss: torch.Tensor | None = None
        self._samples = 0

    def __getstate__(self) -> dict[str, Any]:  # copies of trainers go to other processes
        return {**self.__dict__, "_module": None}

    @property
    def attached(self) -> Attached | None:
        """The handle of :func:`triaccel.attach` while the trainer fits."""
        return self._attached

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not str(trainer.precision).startswith("32"):
            raise ValueError(f"TriaccelCallback chooses precisions itself: leave the trainer's precision at 32 bits, not"
                             f" {trainer.precision}")
        if self._options["activations"] != "raw" and not pl_module.automatic_optimization:
            raise ValueError("activations other than 'raw' are measured in an extra training_step, which with manual optimization"
                             " would update weights; use automatic optimization or activations='raw'")
        if self._module is not None and self._module() is not pl_module:  # of another fold
            self._loaded = None
        self._attached = attach(pl_module, **self._options)
        self._module = weakref.ref(pl_module)
        if self._loaded is not None:
            self._attached.load_state_dict(self._loaded)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        assert self._attached is not None
        self._pass.close()  # of a batch at which the module ended the epoch
        self._samples += self._samples_in(batch)
        if self._options["activations"] != "raw":
            self._profile(pl_module, batch, batch_idx)
            self._pass.enter_context(self._attached.activations())
        self._pass.enter_context(self._attached.precision())

    def _samples_in(self, batch: Any) -> int:
        try:
            return samples_in(batch)
        except ValueError:  # such as images with different numbers of boxes
            if self._options["activations"] != "raw":  # measured over a few samples of the batch
                raise
            return 1

    def _profile(self, module: LightningModule, batch: Any, batch_idx: int) -> None:
        takes_index = is_param_in_hook_signature(module.training_step, "batch_idx", min_args=2)  # as Lightning asks

        def loss_of(part: Any) -> torch.Tensor:
            returned = module.training_step(part, batch_idx) if takes_index else module.training_step(part)
            loss = returned["loss"] if isinstance(returned, dict) else returned
            if loss is None:
                raise _NoLoss
            return loss

        assert self._attached is not None
        logging = {name: lambda *args, **kwargs: None for name in ("log", "log_dict")}
        module.__dict__.update(logging)  # in front of the methods
        try:
            self._attached.profile(batch, loss_of)
        except _NoLoss:
            pass  # the next batch may have one
        finally:
            for name in logging:
                del module.__dict__[name]

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: torch.Tensor) -> None:
        self._pass.close()
        share = loss.detach()
        self._loss = share if self._loss is None else self._loss + share

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._attached is not None and not pl_module.automatic_optimization:  # its training step may go on
            self._pass.enter_context(self._attached.precision())

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule,
                                 optimizer: torch.optim.Optimizer) -> None:
        if self._attached is None or self._loss is None:
            return
        self._attached.end_step(self._loss, self._samples)
        self._loss, self._samples = None, 0

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        self._pass.close()  # a training step may return no loss

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._end()

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end()

    def _end(self) -> None:
        self._pass.close()
        if self._attached is not None:
            self._loaded = self._attached.state_dict()
            self._attached.detach()
            self._attached = None

    def state_dict(self) -> dict[str, Any]:
        return self._attached.state_dict() if self._attached is not None else self._loaded or {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._loaded, self._module = state_dict or None, None
