"""Starts the program under test the way a user does."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

TRIACCEL = os.environ.get("TRIACCEL", "build/release/triaccel")

# A run of a second or so: LeNet-5 on part of the built-in set, one thread.
SMALL_RUN = ["--model", "lenet5", "--train-samples", "512", "--batch", "32", "--threads", "1",
             "--device", "cpu"]


def some_of(cases):
    """A fifth of many like cases; all of them where TRIACCEL_TEST_THOROUGH is set. Starting the program takes a second."""
    cases = list(cases)
    return cases if "TRIACCEL_TEST_THOROUGH" in os.environ else cases[::5]


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


def start(*arguments, **options):
    return subprocess.Popen([TRIACCEL, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)


def run(*arguments, timeout=120, **options):
    return subprocess.run([TRIACCEL, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, **options)


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
