"""Tri-Accel: train PyTorch models in the memory you have.

``triaccel.optim`` has optimizers with fused updates and 8-bit states; ``python -m triaccel`` is the command line.
"""
from triaccel import _load
from triaccel._build import VERSION as __version__

_C = _load.load()

from triaccel import optim  # noqa: E402 - needs the extension
from triaccel.attach import Attached, attach  # noqa: E402
from triaccel.progress import Progress  # noqa: E402
from triaccel.zeroth_order import ZerothOrder, zeroth_order  # noqa: E402

__all__ = ["Attached", "Progress", "ZerothOrder", "__version__", "attach", "optim", "zeroth_order"]
