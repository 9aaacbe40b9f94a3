"""Tables of embeddings, known among tensors by their shapes: what passes over one as a whole?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.pycode.frames.layer_registry import LayerRegistry

Shape = tuple[int, ...]

# It picks rows of what is as large as the table, and no others than the batch has looked up.
_OPTIMIZERS: Final = "/keras/src/optimizers/"
_GATHERS: Final = frozenset({"GatherV2", "ResourceGather"})
# Of a dimension that only running tells: more than any table has rows.
_UNKNOWN: Final = 10**9
# An activation may have the shape of a small table by chance.
_LARGE: Final = 1000


class EmbeddingTables:
    """Large tables that a step looks rows up in.

    Args:
        layers: Of the script.
        ops: Of the step.
        batch_size: Samples of the step.
    """

    def __init__(self, layers: LayerRegistry, ops: Sequence[Any], batch_size: int | None) -> None:
        self._layers = dict(_tables(layers))
        self._used = _looked_up(ops, self._layers, batch_size)

    def table_of_op(self, op: Any) -> Shape | None:
        """The one that an op makes, or writes, as a whole."""
        made = (shape for tensor in op.outputs or op.inputs for shape in _shapes(tensor))
        return next((shape for shape in made if shape in self._used), None)

    def layer_of_table(self, table: Shape) -> Any:
        """Whose it is."""
        return self._layers[table]

    def max_used_rows(self, table: Shape) -> int:
        """What a step looks up, at most."""
        return self._used[table]


def _tables(layers: LayerRegistry) -> Iterator[tuple[Shape, Any]]:
    """Embeddings by the shape of their tables; none where two have one shape."""
    found = [e for e in layers.live_layers() if isinstance(e, keras.layers.Embedding) and e.built]
    shapes = Counter(tuple(each.embeddings.shape) for each in found)
    for each in found:
        shape = tuple(each.embeddings.shape)
        if shapes[shape] == 1 and shape[0] >= _LARGE:
            yield shape, each


def _looked_up(
    ops: Sequence[Any], tables: Mapping[Shape, Any], batch_size: int | None
) -> Mapping[Shape, int]:
    """Tables with the number of rows that a step looks up."""
    used: Counter[Shape] = Counter()
    for op in ops:
        if op.type not in _GATHERS or any(_OPTIMIZERS in frame.filename for frame in op.traceback):
            continue
        if (table := _table(op, tables)) is not None:
            _, *inner = op.outputs[0].shape[:-1].as_list() or (1,)
            first = op.outputs[0].shape[0] or batch_size
            used[table] += math.prod(each or _UNKNOWN for each in (first, *inner))
    return used


def _table(op: Any, tables: Mapping[Shape, Any]) -> Shape | None:
    """Which one is looked up, by the shapes of what it may be and of a row."""
    found = next((s for s in _shapes(op.inputs[0]) if s in tables), None)
    if found is None and op.inputs[0].dtype == tf.resource:
        wide = [s for s in tables if s[1:] == tuple(op.outputs[0].shape[-1:])]
        found = wide[0] if len(wide) == 1 else None
    return found


def _shapes(tensor: Any) -> Iterator[Shape]:
    if tensor.shape.rank and tensor.shape.is_fully_defined():
        yield tuple(tensor.shape)
