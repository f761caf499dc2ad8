"""Starts the program under test. Where TRIACCEL_LIBRARY names a library of it, most calls run from there (loaded_program.py)."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from loaded_program import LoadedProgram

TRIACCEL = os.environ.get("TRIACCEL", "build/release/triaccel")
LIBRARY = os.environ.get("TRIACCEL_LIBRARY", "")

# A run of a second or so: a slim LeNet-5 on part of the built-in set, one thread.
SMALL_RUN = ["--model", "lenet5", "--width", "2", "--train-samples", "512", "--batch", "32", "--threads", "1",
             "--device", "cpu"]


# Control characters, C1 ones included, and bytes that are not UTF-8; TRACES betray an exception.
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\udc80-\udcff]")
TRACES = ("frame #", "terminate called", "what():", "Traceback", "filesystem error", "std::",
          "invariant violated")


def ugly_part(output):
    """A control character or a sign of an exception in the bytes of a program's output, or ""."""
    shown = output.decode("utf-8", "surrogateescape")
    found = CONTROL.search(shown)
    if found:
        return f"control character {found.group()!r} in {shown[-500:]!r}"
    return next((f"{trace} in {shown[-500:]!r}" for trace in TRACES if trace in shown), "")


def popen(arguments, **options):
    """subprocess.Popen with these arguments of the program."""
    words = [TRIACCEL, *map(str, arguments)]
    return LoadedProgram(words, executable=LIBRARY, **options) if LIBRARY else subprocess.Popen(words, **options)


def call(arguments, timeout=120, **options):
    """subprocess.run with these arguments of the program; output that goes nowhere else is captured."""
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with popen(arguments, **piped) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def start(*arguments, **options):
    return popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def run(*arguments, **options):
    return call(arguments, text=True, **options)


def train(*arguments, **options):
    """A small run that must succeed; its summary."""
    done = run("train", *SMALL_RUN, "--json", *arguments, **options)
    if done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def scratch_folder():
    path = pathlib.Path(tempfile.mkdtemp(prefix="triaccel_"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def checkpoints(directory):
    """The complete checkpoints of a run, oldest first."""
    folder = pathlib.Path(directory) / "checkpoints"
    steps = [p for p in folder.glob("step-*") if p.suffix != ".tmp"] if folder.exists() else []
    return sorted(steps, key=lambda p: int(p.name.split("-")[1]))


def final_weights(directory):
    return (checkpoints(directory)[-1] / "weights.safetensors").read_bytes()
