"""Keras layers of a script: where it made them, and under which names their ops stand in graphs.

Keras opens a scope for each call of a layer, and TensorFlow makes its name unique: the ops of a
layer ``dense`` may stand under ``dense_1``, and those of a layer ``dense_1`` elsewhere. Only who
looks while the graph is traced knows.
"""

from __future__ import annotations

from typing import Any
from weakref import ref


class LayerRegistry:
    """What was seen of a script's layers; of one that is gone nothing is known.

    Example:
        >>> class Dense: ...
        >>> layers, dense = LayerRegistry(), Dense()
        >>> layers.note_creation(dense, "train.py:7")
        >>> layers.note_call(dense, "functional_1/dense_1")
        >>> layers.creation_location(layers.layer_of_op("functional_1/dense_1/MatMul"))
        'train.py:7'
        >>> layers.layer_of_op("functional_1/dense_11/MatMul") is None
        True
    """

    def __init__(self) -> None:
        # By identity: a class of the user's may say what is equal, and what has no hash.
        self._made: dict[int, tuple[ref[Any], str]] = {}
        self._scopes: dict[str, ref[Any]] = {}
        self._called: dict[int, tuple[ref[Any], Any]] = {}

    def note_creation(self, layer: Any, at: str) -> None:
        """A layer was made at ``file.py:line``."""
        self._made[id(layer)] = (ref(layer), at)

    def note_call(self, layer: Any, scope: str, inputs: Any = None) -> None:
        """Ops of a layer are about to be traced in a scope.

        Args:
            layer: Any.
            scope: With those of the layers that call it.
            inputs: What it is called on, as specs.
        """
        self._scopes[scope] = ref(layer)
        if self.layer_of_op(scope) is None:
            self._called[id(layer)] = (ref(layer), inputs)

    def layer_of_op(self, name: str) -> Any:
        """The innermost layer that an op belongs to; None where none is known.

        Args:
            name: Of the op, with its scopes.
        """
        scope = name
        while scope:
            scope = scope.rpartition("/")[0]
            found = self._scopes.get(scope)
            if found is not None:
                return found()
        return None

    def creation_location(self, layer: Any) -> str | None:
        """Where a layer was made; None where that was not seen."""
        seen, at = self._made.get(id(layer), (None, None))
        return at if seen is not None and seen() is layer else None

    def outermost_calls(self) -> list[tuple[Any, Any]]:
        """Layers that no other layer called, with what they were called on last."""
        found = ((seen(), given) for seen, given in list(self._called.values()))
        return [(layer, given) for layer, given in found if layer is not None]

    def live_layers(self) -> list[Any]:
        """All layers that still live."""
        living = (seen() for seen, _ in list(self._made.values()))
        return [layer for layer in living if layer is not None]
