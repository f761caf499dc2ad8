"""Loads the extension, after everything that could make loading fail has been checked.

The extension is linked against one version of libtorch, and registers its operators under a dispatch key when it is
loaded. Another version would end in an undefined symbol, a key that is taken in an abort of the process; both are an
ImportError of one sentence here.
"""
from __future__ import annotations

import importlib
import types

from triaccel import _build

_REBUILD = f"pip install --no-build-isolation --force-reinstall --no-deps {_build.SOURCE}"
_KEY = "AutocastPrivateUse1"
_LOADED = "_triaccel_is_loaded"  # set on torch, whose dispatcher keeps our registration for the life of the process


def check_torch() -> types.ModuleType:
    """The running torch; ImportError unless it is the one the extension was built for."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"triaccel {_build.VERSION} was built for torch {_build.TORCH_VERSION}, but torch cannot be imported here: {error}"
        ) from error
    built_for, running = _build.TORCH_VERSION.split("+")[0], torch.__version__.split("+")[0]
    if running != built_for:
        raise ImportError(
            f"triaccel {_build.VERSION} was built for torch {_build.TORCH_VERSION}, but torch {torch.__version__} is running;"
            f" rebuild it with: {_REBUILD}"
        )
    cuda = (torch.version.cuda or "none").split(".")[0]
    if _build.CUDA_MAJOR is not None and cuda != _build.CUDA_MAJOR:
        raise ImportError(
            f"triaccel {_build.VERSION} was built for a torch with CUDA {_build.CUDA_MAJOR}, but this one has CUDA {cuda};"
            f" rebuild it with: {_REBUILD}"
        )
    return torch


def check_dispatch_key(torch: types.ModuleType) -> None:
    """ImportError if another library has a fallback under our dispatch key: registering a second one would abort."""
    if getattr(torch, _LOADED, False):
        return
    if torch._C._dispatch_has_backend_fallback(torch._C._dispatch_key_parse(_KEY)):
        raise ImportError(
            f"triaccel cannot be loaded: another library in this process has registered a fallback for the dispatch key {_KEY},"
            " which holds one; import triaccel in a process without that library"
        )


def load() -> types.ModuleType:
    """The extension module triaccel._C."""
    torch = check_torch()
    check_dispatch_key(torch)
    extension = importlib.import_module("triaccel._C")
    setattr(torch, _LOADED, True)
    return extension
