"""What importing the package checks before the extension is loaded; each case in a process of its own."""
import subprocess
import sys
import textwrap

import pytest

import triaccel
from triaccel import _build


def python(source: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=120)


def import_error_of(preparation: str) -> str:
    """The message of the ImportError; fails unless the extension was not loaded."""
    done = python(preparation + textwrap.dedent("""
        import sys
        try:
            import triaccel
        except ImportError as error:
            assert "triaccel._C" not in sys.modules
            print(error)
        """))
    assert done.returncode == 0, done.stderr
    message = done.stdout.strip()
    assert message and "\n" not in message
    return message


def test_version_is_that_of_the_build():
    assert triaccel.__version__ == triaccel._C.version() == _build.VERSION


def test_another_torch_is_named_with_the_command_that_rebuilds():
    message = import_error_of("import torch; torch.__version__ = '2.99.0+cpu'")
    assert f"built for torch {_build.TORCH_VERSION}, but torch 2.99.0+cpu is running" in message
    assert "pip install --no-build-isolation" in message and _build.SOURCE in message


def test_missing_torch():
    message = import_error_of("import sys; sys.modules['torch'] = None")
    assert f"was built for torch {_build.TORCH_VERSION}, but torch cannot be imported" in message


@pytest.mark.skipif(_build.CUDA_MAJOR is None, reason="built without CUDA")
def test_torch_without_cuda():
    message = import_error_of("import torch; torch.version.cuda = None")
    assert f"CUDA {_build.CUDA_MAJOR}, but this one has CUDA none" in message


def test_dispatch_key_of_another_library():
    message = import_error_of(
        "import torch\nlibrary = torch.library.Library('_', 'IMPL')\n"
        "library.fallback(torch.library.fallthrough_kernel, 'AutocastPrivateUse1')")
    assert "another library in this process has registered a fallback for the dispatch key AutocastPrivateUse1" in message


def test_importing_twice():
    done = python("""
        import sys, triaccel
        for name in [n for n in sys.modules if n.startswith("triaccel") and n != "triaccel._C"]:
            del sys.modules[name]
        import triaccel as again
        assert again is not triaccel and again._C is triaccel._C
        """)
    assert done.returncode == 0, done.stderr


def test_typed():
    from importlib import resources

    assert resources.files("triaccel").joinpath("py.typed").is_file()
