"""Builds the package with scikit-build-core, against the torch of the environment that pip runs in.

What a build needs is looked for first: what is missing is said in one sentence, before CMake starts.
"""
import importlib.util
import os
import pathlib
import re
import sys
from typing import NoReturn

OLDEST, NEWEST = (2, 11), (2, 15)
RANGE = f"torch {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


def _fail(sentence: str) -> NoReturn:
    print(f"triaccel: {sentence}", file=sys.stderr)
    sys.exit(1)


def _find_torch() -> str:
    """The folder of the torch package, found without importing it."""
    found = importlib.util.find_spec("torch")
    folders = list(found.submodule_search_locations or []) if found else []
    if not folders:
        _fail(f"the build sees no torch: install {RANGE} and scikit-build-core first, then run 'pip install --no-build-isolation .'")
    version = re.search(r"__version__ = '((\d+)\.(\d+)[^']*)'", (pathlib.Path(folders[0]) / "version.py").read_text())
    if version is None or not OLDEST <= (int(version[2]), int(version[3])) <= NEWEST:
        _fail(f"needs {RANGE}, but this environment has torch {version[1] if version else 'of an unknown version'}")
    given = os.environ.get("TRIACCEL_TORCH_DIR", "")  # from tools/bootstrap: the same folder by the name the build knows
    return given if os.path.isdir(given) and os.path.samefile(given, folders[0]) else folders[0]


os.environ["TRIACCEL_TORCH_DIR"] = _find_torch()

try:
    from scikit_build_core.build import *  # noqa: F401,F403 - the hooks of a build backend
    from scikit_build_core.build import __all__ as __all__
except ImportError:
    _fail("the build needs scikit-build-core: run 'pip install scikit-build-core', then 'pip install --no-build-isolation .' again")
