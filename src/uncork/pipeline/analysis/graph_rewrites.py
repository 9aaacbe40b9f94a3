"""Neighbours that TensorFlow's graph rewrites make one of, as far as it shows in the elements.

A shuffle that is fused with the repeat above it draws its later epochs otherwise than the two
apart; a map that is fused with the batch above it minds elements of unequal shapes even in a
remainder that is dropped. What does nothing is left out before, and keeps no two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import tensorflow as tf

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.pipeline.functions.function_graph import ConcreteFunction, Tensor
from uncork.pipeline.ir.builders import barrier
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, read

_FUSED: Final = {"shuffle": "repeat", "map": "batch"}
# The number with which a stage does nothing.
_NOTHING: Final = {
    "repeat": ("_count", 1),
    "skip": ("_count", 0),
    "shard": ("_num_shards", 1),
}


def is_left_out(node: Node) -> bool:
    """It does nothing, and TensorFlow takes it out of the graph that it runs.

    Example:
        >>> numbers = tf.data.Dataset.range(4)
        >>> is_left_out(read(numbers.take(-1)).root), is_left_out(read(numbers.take(4)).root)
        (True, False)
        >>> is_left_out(read(numbers.map(lambda x: x)).root)
        True
    """
    if node.kind == "take":
        return _number(node, "_count") < 0
    if node.kind in _NOTHING:
        field, nothing = _NOTHING[node.kind]
        return _number(node, field) == nothing
    return node.kind == "map" and bool(node.inputs) and _is_identity(node.functions[0])


def leaves_out(pipeline: Pipeline) -> bool:
    """TensorFlow takes out what does nothing, unless the options of the whole say otherwise."""
    wanted = pipeline.outermost.options.experimental_optimization
    by_default = wanted.apply_default_optimizations is not False
    return by_default if wanted.noop_elimination is None else bool(wanted.noop_elimination)


def next_above(stages: Sequence[Node], stage: int) -> int | None:
    """Index of the next stage above that does something; None where there is none.

    Args:
        stages: A chain, source first.
        stage: Index in it.
    """
    above = range(stage + 1, len(stages))
    return next((i for i in above if not is_left_out(stages[i])), None)


def fused_repeat(stages: Sequence[Node], stage: int) -> int | None:
    """Index of the repeat that a shuffle is fused with; None where it draws alone.

    Args:
        stages: A chain, source first.
        stage: Of the shuffle.
    """
    above = next_above(stages, stage)
    return above if above is not None and stages[above].kind == "repeat" else None


def fused_shuffles(pipeline: Pipeline) -> list[bool]:
    """Of each shuffle, whether it is fused with a repeat."""
    shuffles = (place for place in pipeline.places if place.node.kind == "shuffle")
    return [fused_repeat(p.pipeline.stages, p.position) is not None for p in shuffles]


def not_fused_anew(instead: Dataset, stages: Sequence[Node], top: int) -> Dataset:
    """What takes the place of some stages, kept apart from the stage above where those were.

    Args:
        instead: Gives the elements of the highest of them.
        stages: The chain as it was, source first.
        top: Index of the highest of them.
    """
    above = next_above(stages, top)
    if above is None:
        return instead
    new, old = read(instead).stages, stages[: top + 1]
    kind = _highest(new)
    fused = _FUSED.get(kind) == stages[above].kind and kind != _highest(old)
    if not fused or (kind == "map" and _of_one_shape(instead)):
        return instead
    return barrier(instead)


def fused_without(stages: Sequence[Node], stage: int, gone: set[int]) -> bool:
    """Whether a shuffle and the repeat at ``stage`` are fused once some maps are gone.

    Args:
        stages: The chain as it was, source first.
        stage: Of the repeat.
        gone: Indices of the maps that stand elsewhere now.
    """
    if is_left_out(stages[stage]):
        return False
    below = reversed(range(stage))
    some = next((i for i in below if i not in gone and not is_left_out(stages[i])), None)
    if some is None or stages[some].kind != "shuffle":
        return False
    return fused_repeat(stages, some) != stage


def _highest(stages: Sequence[Node]) -> str:
    """Kind of the highest stage that does something."""
    return next((node.kind for node in reversed(stages) if not is_left_out(node)), "")


def _of_one_shape(dataset: Dataset) -> bool:
    specs = tf.nest.flatten(dataset.element_spec)
    return all(isinstance(s, tf.TensorSpec) and s.shape.is_fully_defined() for s in specs)


def _number(node: Node, field: str) -> int:
    return int(np.asarray(getattr(node.dataset, field)))


def _is_identity(function: ConcreteFunction) -> bool:
    """As TensorFlow sees it, which looks into no function that is called, and at dead ops, too."""
    graph = function.graph
    if function.captured_inputs or len(graph.inputs) != len(graph.outputs):
        return False
    if any(op.op_def is None or op.op_def.is_stateful for op in graph.get_operations()):
        return False
    pairs = zip(graph.outputs, graph.inputs, strict=True)
    return all(_passed_on(output) is given for output, given in pairs)


def _passed_on(tensor: Tensor) -> Tensor:
    """The tensor that is handed on."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor
