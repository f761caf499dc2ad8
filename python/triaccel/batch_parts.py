"""Batches of any structure whose tensors have samples in their first dimension, and parts of them."""
from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any

import torch
from torch.utils import _pytree as pytree


class Batches(list):
    """Some batches of a loader that one step trains; made by :meth:`Attached.batches`."""


def _is_other_mapping(node: Any) -> bool:
    """Such as transformers' BatchEncoding."""
    return isinstance(node, Mapping) and type(node) not in pytree.SUPPORTED_NODES


def _plain(batch: Any) -> Any:
    return pytree.tree_map(lambda node: _plain(dict(node)) if _is_other_mapping(node) else node, batch, is_leaf=_is_other_mapping)


def _leaves(batch: Any) -> list[Any]:
    return pytree.tree_leaves(_plain(batch))


def samples_in(batch: Any) -> int:
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


def part_of(batch: Any, first: int, count: int, samples: int) -> Any:
    """Its containers are new ones of their types: a closure may take things out of them. Lists of strings or numbers and
    arrays that have an entry for each sample are cut as tensors are."""
    if first == 0 and count == samples:
        return pytree.tree_map(lambda node: copy.copy(node) if _is_other_mapping(node) else node, batch, is_leaf=_is_other_mapping)

    def is_list_of_samples(node: Any) -> bool:
        return isinstance(node, list) and len(node) == samples and all(isinstance(value, (str, bytes, int, float)) for value in node)

    def part(node: Any) -> Any:
        if _is_other_mapping(node):
            parts = {key: part_of(value, first, count, samples) for key, value in node.items()}
            if not isinstance(node, MutableMapping):
                return parts
            own = copy.copy(node)
            own.update(parts)
            return own
        if isinstance(node, torch.Tensor):
            return node.narrow(0, first, count) if node.dim() > 0 else node
        # A NumPy array, told without importing NumPy.
        if is_list_of_samples(node) or (hasattr(node, "__array__") and getattr(node, "shape", ())[:1] == (samples,)):
            return node[first:first + count]
        return node

    return pytree.tree_map(part, batch, is_leaf=lambda node: _is_other_mapping(node) or is_list_of_samples(node))
