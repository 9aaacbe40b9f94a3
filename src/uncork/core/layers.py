"""Keras layers of a script: where it made them, and under which names their ops stand in graphs.

Keras opens a scope for each call of a layer, and TensorFlow makes its name unique: the ops of a
layer ``dense`` may stand under ``dense_1``, and those of a layer ``dense_1`` elsewhere. Only who
looks while the graph is traced knows.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, ref


class Layers:
    """What was seen of a script's layers; of one that is gone nothing is known.

    Example:
        >>> class Dense: ...
        >>> layers, dense = Layers(), Dense()
        >>> layers.made(dense, "train.py:7")
        >>> layers.entered(dense, "functional_1/dense_1")
        >>> layers.at(layers.of("functional_1/dense_1/MatMul"))
        'train.py:7'
        >>> layers.of("functional_1/dense_11/MatMul") is None
        True
    """

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._scopes: dict[str, ref[Any]] = {}

    def made(self, layer: Any, at: str) -> None:
        """A layer was made at ``file.py:line``."""
        self._made[layer] = at

    def entered(self, layer: Any, scope: str) -> None:
        """Ops of a layer are about to be traced in a scope."""
        self._scopes[scope] = ref(layer)

    def of(self, name: str) -> Any:
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

    def at(self, layer: Any) -> str | None:
        """Where a layer was made; None where that was not seen."""
        return None if layer is None else self._made.get(layer)

    def known(self) -> list[Any]:
        """All layers that still live."""
        return list(self._made)
