"""Layers as a diagnosis sees them: made and traced while they are watched."""

from __future__ import annotations

from contextlib import contextmanager

from uncork.capture.base.patches import PatchSet
from uncork.capture.hooks.layer_hooks import record_layers
from uncork.pycode.frames.layer_registry import LayerRegistry


@contextmanager
def watched_layers():
    patches, layers = PatchSet(), LayerRegistry()
    record_layers(patches, layers)
    try:
        yield layers
    finally:
        patches.restore()
