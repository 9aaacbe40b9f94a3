"""Settings that must be in place before TensorFlow is imported by any test."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Run as a user would run them, never imported.
collect_ignore_glob = ["loops/*.py", "quick_start/*.py"]

# What tests start inherits it. By hand, with this set, all starts and ends as with a user.
if "UNCORK_EXAMPLES" not in os.environ:
    begins = str(Path(__file__).with_name("quick_start"))
    paths = [begins, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))
    # Uncork's modules are compiled once, not in each of some hundred processes.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no worker waits for another at the end."""
    items.sort(key=lambda item: "test_properties" not in item.nodeid)


def pytest_collection_finish() -> None:
    """All that is imported by now stays: looking through it for garbage again takes 0.3 s each.

    Tracing makes so many objects that all others would be looked through several times in each
    test: ten times as many may be made before.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10 * gc.get_threshold()[0], *gc.get_threshold()[1:])
