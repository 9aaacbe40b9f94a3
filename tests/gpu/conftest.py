"""What needs an accelerator: skipped where TensorFlow sees none."""

from __future__ import annotations

import pytest

from uncork.measure.machine.devices import accelerators

DEVICE = "/device:GPU:0"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each is marked; asked once, which brings an accelerator up."""
    own = [item for item in items if "tests/gpu/" in item.path.as_posix()]
    for item in own:
        item.add_marker(pytest.mark.gpu)
    if own and not accelerators():
        for item in own:
            item.add_marker(pytest.mark.skip(reason="TensorFlow sees no accelerator here"))
