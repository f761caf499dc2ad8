"""Libraries that tests go with: in 'make test' they are there, elsewhere tests without theirs are skipped."""
import importlib
import os

import pytest


def library(name):
    return importlib.import_module(name) if "TRIACCEL_TEST_ALL" in os.environ else pytest.importorskip(name)
