"""The machine that a record is of, for benchmarks whose own process never imports TensorFlow."""

from __future__ import annotations

from contextlib import suppress
from importlib import metadata
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.measure.machine.probe import probe_host

_TENSORFLOW: Final = ("tensorflow", "tensorflow-cpu")


def machine() -> Machine:
    """With the versions that are installed: it is the scripts that import them."""
    return replace(probe_host(), tensorflow=_installed(*_TENSORFLOW), keras=_installed("keras"))


def _installed(*names: str) -> str:
    """The version of the first of these packages that is there."""
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ""
