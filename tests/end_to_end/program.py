"""Starts the program under test the way a user does."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

TRIACCEL = os.environ.get("TRIACCEL", "build/release/triaccel")

# A run of a second or so: LeNet-5 on part of the built-in set, one thread.
SMALL_RUN = ["--model", "lenet5", "--train-samples", "512", "--batch", "32", "--threads", "1",
             "--device", "cpu"]


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
