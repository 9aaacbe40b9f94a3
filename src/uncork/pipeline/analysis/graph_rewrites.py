"""Neighbours that TensorFlow's graph rewrites make one of, as far as it shows in the elements.

A shuffle that is fused with the repeat above it draws its later epochs otherwise than the two
apart; a map that is fused with the batch above it minds elements of unequal shapes even in a
remainder that is dropped. What does nothing is left out before, and keeps no two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_fields import int_parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.pipeline.functions.function_graph import ConcreteFunction, Tensor
from uncork.pipeline.ir.builders import add_rewrite_barrier
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, read_pipeline

_FUSED: Final = {"shuffle": "repeat", "map": "batch"}
# The number with which a stage does nothing.
_NOTHING: Final = {
    "repeat": ("count", 1),
    "skip": ("count", 0),
    "shard": ("num_shards", 1),
}


def is_noop(node: Node) -> bool:
    """It does nothing, and TensorFlow takes it out of the graph that it runs.

    Example:
        >>> numbers = tf.data.Dataset.range(4)
        >>> (
        ...     is_noop(read_pipeline(numbers.take(-1)).root),
        ...     is_noop(read_pipeline(numbers.take(4)).root),
        ... )
        (True, False)
        >>> is_noop(read_pipeline(numbers.map(lambda x: x)).root)
        True
    """
    if node.kind == "take":
        return int_parameter(node.dataset, "count") < 0
    if node.kind in _NOTHING:
        name, nothing = _NOTHING[node.kind]
        return int_parameter(node.dataset, name) == nothing
    return node.kind == "map" and bool(node.inputs) and _is_identity(node.functions[0])


def has_noop_elimination(pipeline: Pipeline) -> bool:
    """TensorFlow takes out what does nothing, unless the options of the whole say otherwise."""
    wanted = pipeline.outermost.options.experimental_optimization
    by_default = wanted.apply_default_optimizations is not False
    return by_default if wanted.noop_elimination is None else bool(wanted.noop_elimination)


def find_next_downstream(stages: Sequence[Node], stage: int) -> int | None:
    """Index of the next stage above that does something; None where there is none.

    Args:
        stages: A chain, source first.
        stage: Index in it.
    """
    above = range(stage + 1, len(stages))
    return next((i for i in above if not is_noop(stages[i])), None)


def find_fused_repeat(stages: Sequence[Node], stage: int) -> int | None:
    """Index of the repeat that a shuffle is fused with; None where it draws alone.

    Args:
        stages: A chain, source first.
        stage: Of the shuffle.
    """
    above = find_next_downstream(stages, stage)
    return above if above is not None and stages[above].kind == "repeat" else None


def shuffle_fusion_flags(pipeline: Pipeline) -> list[bool]:
    """Of each shuffle, whether it is fused with a repeat."""
    shuffles = (place for place in pipeline.stage_locations if place.node.kind == "shuffle")
    return [find_fused_repeat(p.pipeline.stages, p.position) is not None for p in shuffles]


def prevent_new_fusion(replacement: Dataset, stages: Sequence[Node], top_stage: int) -> Dataset:
    """What takes the place of some stages, kept apart from the stage above where those were.

    Args:
        replacement: Gives the elements of the highest of them.
        stages: The chain as it was, source first.
        top_stage: Index of the highest of them.
    """
    above = find_next_downstream(stages, top_stage)
    if above is None:
        return replacement
    new, old = read_pipeline(replacement).stages, stages[: top_stage + 1]
    kind = _highest(new)
    fused = _FUSED.get(kind) == stages[above].kind and kind != _highest(old)
    if not fused or (kind == "map" and _of_one_shape(replacement)):
        return replacement
    return add_rewrite_barrier(replacement)


def is_fused_without(stages: Sequence[Node], stage: int, moved_maps: set[int]) -> bool:
    """Whether a shuffle and the repeat at ``stage`` are fused once some maps are gone.

    Args:
        stages: The chain as it was, source first.
        stage: Of the repeat.
        moved_maps: Indices of the maps that stand elsewhere now.
    """
    if is_noop(stages[stage]):
        return False
    below = reversed(range(stage))
    some = next((i for i in below if i not in moved_maps and not is_noop(stages[i])), None)
    if some is None or stages[some].kind != "shuffle":
        return False
    return find_fused_repeat(stages, some) != stage


def _highest(stages: Sequence[Node]) -> str:
    """Kind of the highest stage that does something."""
    return next((node.kind for node in reversed(stages) if not is_noop(node)), "")


def _of_one_shape(dataset: Dataset) -> bool:
    specs = tf.nest.flatten(dataset.element_spec)
    return all(isinstance(s, tf.TensorSpec) and s.shape.is_fully_defined() for s in specs)


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
