"""pip install --no-build-isolation . from the repository, into environments made for the test."""
import os
import pathlib
import subprocess
import sys
import sysconfig
import venv

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> pathlib.Path:
    """A new environment, without any package."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    return folder


def pip_install(environment: pathlib.Path, borrowed: list[str], *options: str) -> subprocess.CompletedProcess:
    """Installs the repository into ``environment``, which also sees the packages in the ``borrowed`` folders."""
    command = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "--disable-pip-version-check",
               "install", "--no-deps", "--no-build-isolation", *options, str(ROOT)]
    variables = {k: v for k, v in os.environ.items() if not k.startswith("TRIACCEL_TORCH")}
    variables["PYTHONPATH"] = os.pathsep.join(borrowed)
    return subprocess.run(command, capture_output=True, text=True, timeout=280, cwd="/", env=variables)


def said(done: subprocess.CompletedProcess) -> list[str]:
    """Our lines in pip's report."""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    return [line for line in lines if line.startswith("triaccel: ")]


def test_without_torch_one_sentence_says_what_to_do(environment):
    done = pip_install(environment, [])
    assert done.returncode != 0
    assert said(done) == ["triaccel: the build sees no torch: install torch 2.11 to 2.15 and scikit-build-core first, "
                          "then run 'pip install --no-build-isolation .'"]
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("version,expected", [
    ("2.10.3", "triaccel: needs torch 2.11 to 2.15, but this environment has torch 2.10.3"),
    ("2.11.0", "triaccel: the build needs scikit-build-core: run 'pip install scikit-build-core', "
               "then 'pip install --no-build-isolation .' again"),
])
def test_what_the_environment_lacks(environment, tmp_path, version, expected):
    torch_folder = tmp_path / "packages" / "torch"
    torch_folder.mkdir(parents=True)
    (torch_folder / "__init__.py").touch()
    (torch_folder / "version.py").write_text(f"__version__ = '{version}'\n")
    done = pip_install(environment, [str(torch_folder.parent)])
    assert done.returncode != 0 and said(done) == [expected]


@pytest.mark.skipif("TRIACCEL_TEST_INSTALL" not in os.environ, reason="compiles everything: set TRIACCEL_TEST_INSTALL")
def test_fresh_environment(environment):
    """What 'make build' has compiled comes from the compiler cache."""
    borrowed = sorted({str(pathlib.Path(torch.__file__).parents[1]), sysconfig.get_path("purelib")})
    done = pip_install(environment, borrowed, "--ignore-installed", "-C", "build-dir=build/fresh-environment", "-C", "cmake.define.BUILD_TESTING=ON")
    assert done.returncode == 0, done.stdout + done.stderr

    def run(*command: str) -> str:
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(borrowed)}
        ran = subprocess.run([str(environment / "bin" / command[0]), *command[1:]], capture_output=True, text=True, cwd="/", env=variables)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    # PYTHONPATH comes first, and the environment that runs the tests has the package, too.
    folder = next(environment.glob("lib/python3*/site-packages"))
    check = f"import sys; sys.path.insert(0, {str(folder)!r}); import triaccel; print(triaccel.__file__, triaccel.__version__)"
    assert run("python", "-c", check).startswith(str(folder))
    assert run("triaccel", "--version").startswith("triaccel ")
