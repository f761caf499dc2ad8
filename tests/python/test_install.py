"""pip install --no-build-isolation . from the repository, into environments made for the test."""
import os
import pathlib
import site
import subprocess
import sys
import sysconfig
import venv

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def make_environment(folder: pathlib.Path, *borrowed: str) -> str:
    """A new environment that also sees the packages in the ``borrowed`` folders; its Python."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    purelib = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                             capture_output=True, text=True, check=True).stdout.strip()
    pathlib.Path(purelib, "borrowed.pth").write_text("".join(f"{path}\n" for path in borrowed))
    return python


def pip_install(python: str, *options: str, **variables: str) -> subprocess.CompletedProcess:
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", *options, str(ROOT)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIACCEL_TORCH")}
    return subprocess.run(command, capture_output=True, text=True, timeout=280, cwd="/", env={**environment, **variables})


def said(done: subprocess.CompletedProcess) -> list[str]:
    """Our lines in pip's report."""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    return [line for line in lines if line.startswith("triaccel: ")]


def test_without_torch_one_sentence_says_what_to_do(tmp_path):
    done = pip_install(make_environment(tmp_path / "bare"))
    assert done.returncode != 0
    assert said(done) == ["triaccel: the build sees no torch: install torch 2.11 to 2.15 and scikit-build-core first, "
                          "then run 'pip install --no-build-isolation .'"]
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("version,expected", [
    ("2.10.3", "triaccel: needs torch 2.11 to 2.15, but this environment has torch 2.10.3"),
    ("2.11.0", "triaccel: the build needs scikit-build-core: run 'pip install scikit-build-core', "
               "then 'pip install --no-build-isolation .' again"),
])
def test_what_the_environment_lacks(tmp_path, version, expected):
    torch_folder = tmp_path / "packages" / "torch"
    torch_folder.mkdir(parents=True)
    (torch_folder / "__init__.py").touch()
    (torch_folder / "version.py").write_text(f"__version__ = '{version}'\n")
    done = pip_install(make_environment(tmp_path / "environment", str(torch_folder.parent)))
    assert done.returncode != 0 and said(done) == [expected]


@pytest.mark.skipif(not os.environ.get("TRIACCEL_CCACHE", "").startswith("/"), reason="compiles everything: only with a compiler cache")
def test_fresh_environment(tmp_path):
    """What 'make build' has compiled comes from the compiler cache."""
    borrowed = {str(pathlib.Path(torch.__file__).parents[1]), sysconfig.get_path("purelib"), *site.getsitepackages()}
    python = make_environment(tmp_path / "fresh", *sorted(borrowed))
    done = pip_install(python, "--force-reinstall", "-C", "build-dir=build/fresh-environment", "-C", "cmake.define.BUILD_TESTING=ON")
    assert done.returncode == 0, done.stdout + done.stderr
    check = "import triaccel, sys; assert triaccel.__file__.startswith(sys.prefix), triaccel.__file__; print(triaccel.__version__)"
    ran = subprocess.run([python, "-c", check], capture_output=True, text=True, cwd="/")
    assert ran.returncode == 0, ran.stderr
    ran = subprocess.run([str(tmp_path / "fresh" / "bin" / "triaccel"), "--version"], capture_output=True, text=True, cwd="/")
    assert ran.returncode == 0 and ran.stdout.startswith("triaccel ")
