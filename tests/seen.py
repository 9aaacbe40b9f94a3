"""Layers as a diagnosis sees them: made and traced while they are watched."""

from __future__ import annotations

from contextlib import contextmanager

from uncork.capture.base.patches import Patches
from uncork.capture.hooks.layer_hooks import watch_layers
from uncork.pycode.frames.layer_registry import Layers


@contextmanager
def watched_layers():
    patches, layers = Patches(), Layers()
    watch_layers(patches, layers)
    try:
        yield layers
    finally:
        patches.undo()
