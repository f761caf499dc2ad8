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


@pytest.fixture
def deterministic():
    """For tests that compare the bits of two runs: on a GPU gradients of convolutions may be added up in any order.

    There it needs CUBLAS_WORKSPACE_CONFIG=:4096:8.
    """
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def library(name):
    return importlib.import_module(name) if "TRIACCEL_TEST_ALL" in os.environ else pytest.importorskip(name)
