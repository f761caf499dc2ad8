"""Hugging Face's Trainer with Tri-Accel under it.

>>> from triaccel.integrations.huggingface import TriaccelTrainer
>>> trainer = TriaccelTrainer(model=model, args=args, train_dataset=data, budget="6GB")
>>> trainer.train()
"""
from __future__ import annotations

from typing import Any

import torch
import transformers

from triaccel.attach import Attached, attach
from triaccel.batch_parts import samples_in

__all__ = ["TriaccelTrainer"]


class TriaccelTrainer(transformers.Trainer):
    """A ``transformers.Trainer`` whose batches go through in parts that fit the budget, in the precision that each layer
    needs. It clips, updates, schedules, logs and saves as ever.

    budget, precision and policy are those of :func:`triaccel.attach`; leave ``bf16`` and ``fp16`` of the arguments off.
    """

    def __init__(self, *args: Any, budget: str | int | None = None, precision: str = "auto", policy: str = "robust",
                 **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.args.bf16 or self.args.fp16:
            raise ValueError("TriaccelTrainer chooses precisions itself: leave bf16 and fp16 of the training arguments off")
        self._options = {"budget": budget, "precision": precision, "policy": policy}
        self._attached: Attached | None = None

    @property
    def attached(self) -> Attached | None:
        """The handle of :func:`triaccel.attach`, from the first step on."""
        return self._attached

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any],
                      num_items_in_batch: torch.Tensor | int | None = None) -> torch.Tensor:
        """Gradients of a batch, as the Trainer's own."""
        model.train()
        if callable(getattr(self.optimizer, "train", None)):
            self.optimizer.train()
        inputs = self._prepare_inputs(inputs)
        if self._attached is None:
            self._attached = attach(self.accelerator.unwrap_model(model), **self._options)
        samples = samples_in(inputs)
        # A loss divided by the items of all batches is a share of the whole: parts of it add up instead of being averaged.
        is_share = (self.model_accepts_loss_kwargs and num_items_in_batch is not None) or self.compute_loss_func is not None

        def closure(part: dict[str, Any]) -> Any:
            with self.compute_loss_context_manager():
                loss = self.compute_loss(model, part, num_items_in_batch=num_items_in_batch)
            if is_share:
                return loss, samples_in(part) / samples
            return loss / self.current_gradient_accumulation_steps

        return self._attached.backward(inputs, closure)
