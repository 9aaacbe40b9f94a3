"""Settings that must be in place before TensorFlow is imported by any test."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Run as a user would run them, never imported.
collect_ignore_glob = ["loops/*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no worker waits for another at the end."""
    items.sort(key=lambda item: "test_properties" not in item.nodeid)
