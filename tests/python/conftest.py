"""TRIACCEL_TEST_DEFAULT_DEVICE=cuda: tests that name no device run on a GPU."""
import os

import torch

if device := os.environ.get("TRIACCEL_TEST_DEFAULT_DEVICE"):
    torch.set_default_device(device)
