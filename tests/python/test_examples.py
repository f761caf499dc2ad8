"""The example scripts, in small."""
import pathlib
import re
import subprocess
import sys

from conftest import library

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def losses_of(script, *options):
    done = subprocess.run([sys.executable, str(FOLDER / script), *options], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return [float(loss) for loss in re.findall(r"loss ([0-9.]+)", done.stdout)]


def test_vit_fine_tuning():
    library("timm")
    losses = losses_of("vit_fine_tuning.py", "--steps", "20", "--batch", "8", "--image-size", "64")
    assert len(losses) == 2 and losses[-1] < 1.4


def test_small_llama():
    library("transformers")
    losses = losses_of("small_llama.py", "--steps", "40", "--batch", "8", "--length", "24", "--budget", "200MB")
    assert losses[-1] < losses[0] < 5.6
