"""Activation checkpointing of torch: what it recomputes in backward follows the plan only with use_reentrant=False.

Its hooks then give tensors back within a second forward pass, which the engine runs as it ran the first. With
use_reentrant=True nothing tells the engine that a forward pass begins.
"""
from __future__ import annotations

import traceback

from torch.utils.checkpoint import CheckpointFunction


def explain_reentrant(error: RuntimeError) -> None:
    """Raises what helps, where ``error`` comes from the backward function of use_reentrant=True."""
    if not _is_of_reentrant_backward(error):
        return
    raise RuntimeError(
        "activation checkpointing with use_reentrant=True recomputes without the precision that attach() plans; pass "
        "use_reentrant=False (transformers: gradient_checkpointing_enable({'use_reentrant': False})), or attach with "
        "precision='off'") from error


def _is_of_reentrant_backward(error: RuntimeError) -> bool:
    """Whether torch's reentrant backward function is on its traceback."""
    backward = CheckpointFunction.backward.__code__
    return any(frame.f_code is backward for frame, _ in traceback.walk_tb(error.__traceback__))
