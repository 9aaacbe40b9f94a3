"""Hooks on Keras's layers: the line that made one, and the scopes in which it is traced."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from uncork.capture.base.patches import PatchSet
from uncork.compat.hook_targets import KERAS_LAYER, KERAS_OPERATION
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.pycode.frames.training_line import UNKNOWN_LINE, user_line


def record_layers(patches: PatchSet, layers: LayerRegistry) -> None:
    """Keep what is seen of layers from now on; an eager call costs them next to nothing.

    Args:
        patches: Undone when the script has ended.
        layers: What is seen is kept there.
    """
    patches.when_imported(KERAS_LAYER, lambda m: _on_made(m, patches, layers))
    patches.when_imported(KERAS_OPERATION, lambda m: _on_called(m, patches, layers))


def _on_made(module: Any, patches: PatchSet, layers: LayerRegistry) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def new(cls: type, /, *args: Any, **kwargs: Any) -> Any:
            layer = original(cls, *args, **kwargs)
            at = user_line(sys._getframe(1))
            with suppress(TypeError):  # a class without weak references
                if at != UNKNOWN_LINE:
                    layers.note_creation(layer, at)
            return layer

        return new

    patches.replace(module.Layer, "__new__", make)


def _on_called(module: Any, patches: PatchSet, layers: LayerRegistry) -> None:
    """By the time this is called, a layer has opened its scope."""
    tensorflow: Any = sys.modules.get("tensorflow")
    if not hasattr(tensorflow, "get_current_name_scope"):  # Keras on another backend
        return
    eager, scope = tensorflow.executing_eagerly, tensorflow.get_current_name_scope

    def specs(args: Any) -> Any:
        return tensorflow.nest.map_structure(
            lambda x: tensorflow.type_spec_from_value(x) if tensorflow.is_tensor(x) else None,
            args,
        )

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(layer: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not eager() and hasattr(type(layer), "add_weight"):
                with suppress(Exception):  # called on what has no spec, ragged or sparse tensors
                    layers.note_call(layer, scope(), specs(args))
            return original(layer, *args, **kwargs)

        return call

    patches.replace(module.Operation, "__call__", make)
