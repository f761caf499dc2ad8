"""python -m triaccel and the script triaccel: output, exit codes and signals of the program."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import triaccel

SMALL_RUN = ["train", "--model", "lenet5", "--width", "2", "--data", "synthetic", "--train-samples", "512", "--batch", "32", "--threads", "1", "--device", "cpu"]
MODULE = [sys.executable, "-m", "triaccel"]


def run(*words, command=MODULE) -> subprocess.CompletedProcess:
    return subprocess.run([*command, *map(str, words)], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("command", [MODULE, [str(pathlib.Path(sys.executable).parent / "triaccel")]])
def test_version(command):
    done = run("--version", command=command)
    assert done.returncode == 0 and done.stdout.startswith(f"triaccel {triaccel.__version__} (")


def test_usage_error():
    done = run("trian")
    assert done.returncode == 2 and "unknown command 'trian'" in done.stderr and "Traceback" not in done.stderr


def test_training_with_compressed_activations(tmp_path):
    done = run(*SMALL_RUN, "--epochs", 1, "--activations", "compressed", "--json", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name,code", [("SIGINT", 130), ("SIGTERM", 143)])
def test_signal_saves_a_checkpoint(tmp_path, name, code):
    folder = tmp_path / "run"
    process = subprocess.Popen([*MODULE, *SMALL_RUN, "--epochs", "100000", "--out", str(folder)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    metrics = folder / "metrics.jsonl"
    while not (metrics.exists() and metrics.stat().st_size > 0):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(getattr(signal, name))
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert any((folder / "checkpoints").iterdir()) and "Traceback" not in said


def test_closed_output_is_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*MODULE, "help", "train"], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert "Traceback" not in done.stderr
