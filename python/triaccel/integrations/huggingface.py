"""Hugging Face's Trainer with Tri-Accel under it.

>>> from triaccel.integrations.huggingface import TriaccelTrainer
>>> trainer = TriaccelTrainer(model=model, args=args, train_dataset=data, budget="6GB")
>>> trainer.train()
"""
from __future__ import annotations

import os
from typing import Any

import torch
import transformers

from triaccel.attach import Attached, attach
from triaccel.batch_parts import samples_in

__all__ = ["TriaccelTrainer"]


class TriaccelTrainer(transformers.Trainer):
    """A ``transformers.Trainer`` whose batches go through in parts that fit the budget, in the precision that each layer
    needs. It clips, updates, schedules, logs and saves as ever; checkpoints hold the state of the control loop too.

    budget, precision and policy are those of :func:`triaccel.attach`; leave ``bf16`` and ``fp16`` of the arguments off, and
    ``--mixed_precision`` of ``accelerate launch``.
    """

    _STATE = "triaccel.pt"  # in a checkpoint

    def __init__(self, *args: Any, budget: str | int | None = None, precision: str = "auto", policy: str = "robust",
                 **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.args.bf16 or self.args.fp16 or self.accelerator.mixed_precision != "no":
            raise ValueError("TriaccelTrainer chooses precisions itself: leave bf16 and fp16 of the training arguments off, and"
                             " --mixed_precision of accelerate launch")
        self._options = {"budget": budget, "precision": precision, "policy": policy}
        self._attached: Attached | None = None
        self._resumed: dict[str, Any] | None = None  # the state to go on from

    @property
    def attached(self) -> Attached | None:
        """The handle of :func:`triaccel.attach`, from the first step to the end of training."""
        return self._attached

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As the Trainer's own; the budget is lifted at its end."""
        try:
            return super().train(*args, **kwargs)
        finally:
            if self._attached is not None:
                self._attached.detach()
            self._attached = self._resumed = None

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self._attached is not None and self.args.should_save:
            torch.save(self._attached.state_dict(), os.path.join(output_dir, self._STATE))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and os.path.isfile(state := os.path.join(checkpoint, self._STATE)):
            self._resumed = torch.load(state, weights_only=True)

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any],
                      num_items_in_batch: torch.Tensor | int | None = None) -> torch.Tensor:
        """Gradients of a batch, as the Trainer's own."""
        model.train()
        if callable(getattr(self.optimizer, "train", None)):
            self.optimizer.train()
        inputs = self._prepare_inputs(inputs)
        if self._attached is None:
            self._attached = attach(self.accelerator.unwrap_model(model), **self._options)
            if self._resumed is not None:
                self._attached.load_state_dict(self._resumed)
        samples = samples_in(inputs)
        is_scaled = getattr(self, "loss_is_scaled_for_ga", None)
        if is_scaled is None:  # as the Trainer itself tells
            is_scaled = (self.model_accepts_loss_kwargs and num_items_in_batch is not None) or self.compute_loss_func is not None

        def closure(part: dict[str, Any]) -> torch.Tensor:
            # A model may divide its loss by these items or return a mean all the same: with the part's share of them, the
            # mean over parts is right for both.
            count, items = samples_in(part), num_items_in_batch
            if items is not None and count != samples:
                items = items * (count / samples)
            with self.compute_loss_context_manager():
                loss = self.compute_loss(model, part, num_items_in_batch=items)
            return loss if is_scaled else loss / self.current_gradient_accumulation_steps

        return self._attached.backward(inputs, closure)
