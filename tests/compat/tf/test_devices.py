from __future__ import annotations

import pytest

from uncork.compat.tf import devices
from uncork.core.base.errors import MissingPrivateApi


def test_facts_of_this_machine():
    assert devices.is_op_determinism_enabled() is False
    assert devices.memory_limits()["/device:CPU:0"] > 0
    assert devices.collective_server() is None


def test_a_context_without_a_server_is_a_named_error(monkeypatch):
    monkeypatch.setattr(devices, "_context", object)
    with pytest.raises(MissingPrivateApi, match="_collective_ops_server_def"):
        devices.collective_server()
