"""What all tests share.

TRIACCEL_TEST_ALL: libraries that tests go with must be there, as in 'make test'; elsewhere tests without theirs are skipped.
TRIACCEL_TEST_DEFAULT_DEVICE=cuda: tests that name no device run on a GPU.
"""
import importlib
import os

import pytest
import torch

if device := os.environ.get("TRIACCEL_TEST_DEFAULT_DEVICE"):
    torch.set_default_device(device)


def library(name):
    return importlib.import_module(name) if "TRIACCEL_TEST_ALL" in os.environ else pytest.importorskip(name)
