"""What maps make and nobody takes: parts of their elements that a map further up ignores.

A loader that serves several scripts decodes pictures and masks; this one trains on pictures alone,
and says so two maps later. TensorFlow runs all of a map's function for whatever is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields, rebuild
from uncork.compat.tfdata.structured_function import MapFunction, derive_map_function
from uncork.pipeline.analysis.graph_rewrites import prevent_new_fusion
from uncork.pipeline.analysis.legality import MOVABLE_KINDS, has_ignored_errors, is_repeatable
from uncork.pipeline.functions.effects import stateful_ops
from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    argument_specs,
    graph_of,
    replay,
    trace,
)
from uncork.pipeline.functions.splitting import NO_WORK_OPS
from uncork.pipeline.ir.element_order import is_ordered_by_default
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.transforms.vectorize import rebuild_batch

# What they give of an element does not depend on what else is in it.
_PASSING: Final = MOVABLE_KINDS | {"take", "skip", "shard", "batch"}


@dataclass(frozen=True)
class _Stretch:
    """From a map that makes an element to the next one above, and what is taken in between.

    Attributes:
        maker: Index of the lower map.
        taker: Of the upper one.
        live: Indices of the tensors, of those that the lower one gives, that are looked at.
    """

    maker: int
    taker: int
    live: tuple[int, ...]


def find_unused_outputs(pipeline: Pipeline, stage: int) -> dict[int, MapFunction]:
    """The maps that work for something that a map further up ignores.

    Legal because what is left out draws nothing, keeps no state and runs no Python: nobody could
    tell, but for an element on which it would have failed. That does not fail any more.

    Args:
        pipeline: The tree.
        stage: Of the map that ignores it.

    Returns:
        Their indices, highest first, and what makes all else of their elements.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> both = tf.data.Dataset.range(9).map(lambda x: (x * 2, tf.exp(tf.cast(x, tf.float32))))
        >>> list(
        ...     find_unused_outputs(
        ...         read_pipeline(both.shuffle(9).map(lambda twice, power: twice)), 3
        ...     )
        ... )
        [1]
    """
    found: dict[int, MapFunction] = {}
    for stretch in _stretches(pipeline, stage):
        node = pipeline.stages[stretch.maker]
        found[stretch.maker] = _trimmed(node, _all_given(node), stretch.live)
    return found


def drop_unused_outputs(pipeline: Pipeline, stage: int) -> Dataset | None:
    """What gives the elements of a map, without making what it ignores.

    Args:
        pipeline: The tree.
        stage: Of the map that ignores it.

    Returns:
        None where nothing would be spared.
    """
    stretches, chain = _stretches(pipeline, stage), pipeline.stages
    if not stretches:
        return None
    lowest = chain[stretches[-1].maker]
    below, taken = lowest.inputs[0].dataset, tuple(_all_given(lowest))
    for stretch in reversed(stretches):
        maker = chain[stretch.maker]
        below = _mapped(maker, below, _trimmed(maker, taken, stretch.live))
        below = prevent_new_fusion(below, chain, stretch.maker)
        for node in chain[stretch.maker + 1 : stretch.taker]:
            below = _passed_on(node, below, stretch.live)
        taken = stretch.live
    node = chain[stage]
    function = _part(node.functions[0], taken, _outputs(node.functions[0]))
    return _mapped(node, below, derive_map_function(parameter(node.dataset, "map_func"), function))


def _stretches(pipeline: Pipeline, stage: int) -> list[_Stretch]:
    """From the map that ignores something downwards, as far as work is spared."""
    found = list(_downwards(pipeline, stage))
    while found and not _is_spared(pipeline.stages[found[-1].maker], found[-1].live):
        found.pop()
    return found


def _downwards(pipeline: Pipeline, stage: int) -> Iterator[_Stretch]:
    chain, ordered = pipeline.stages, is_ordered_by_default(pipeline)
    if chain[stage].kind != "map" or has_ignored_errors(pipeline, stage):
        return
    taker, live = stage, set(_arguments(chain[stage].functions[0]))
    for index in reversed(range(1, stage)):
        node = chain[index]
        if not _is_plain(node):
            return
        if node.kind == "filter":
            live |= set(_arguments(node.functions[0]))
        elif node.kind == "map":
            taken = tuple(sorted(live))
            if not 0 < len(taken) < len(_specs(node)) or _draws(node.functions[0], taken):
                return
            yield _Stretch(index, taker, taken)
            taker, live = index, set(_arguments(node.functions[0], taken))
        elif node.kind not in _PASSING and not _may_be_another(node, ordered=ordered):
            return


def _may_be_another(node: Node, *, ordered: bool) -> bool:
    """A cache in memory, where what it holds would be the same."""
    return node.is_memory_cache and is_repeatable(node, is_ordered=ordered)


def _specs(node: Node) -> list[Any]:
    return list(tf.nest.flatten(node.dataset.element_spec))


def _is_plain(node: Node) -> bool:
    specs = [*_specs(node), *_specs(node.inputs[0])]
    return all(isinstance(s, tf.TensorSpec) and s.dtype != tf.variant for s in specs)


def _all_given(node: Node) -> range:
    """Indices of all tensors that a map is given."""
    return range(len(_specs(node.inputs[0])))


def _outputs(function: ConcreteFunction) -> range:
    return range(len(graph_of(function).outputs))


def _arguments(function: ConcreteFunction, given: Sequence[int] | None = None) -> tuple[int, ...]:
    """Which of the tensors that it takes a function looks at, for all it gives or some of it."""
    needed = _needed(function, _outputs(function) if given is None else given)
    return tuple(i for i, name in enumerate(graph_of(function).arguments) if name in needed)


def _needed(function: ConcreteFunction, given: Sequence[int]) -> set[str]:
    graph = graph_of(function)
    effects = (f"^{name}" for name in graph.effects)
    return graph.required_ops([*(graph.outputs[i] for i in given), *effects])


def _left_out(function: ConcreteFunction, given: Sequence[int]) -> set[str]:
    """Ops that nothing but its other outputs needs."""
    return _needed(function, _outputs(function)) - _needed(function, given)


def _draws(function: ConcreteFunction, given: Sequence[int]) -> bool:
    """What would be left out draws, keeps state or runs Python."""
    return bool(_left_out(function, given) & stateful_ops(graph_of(function)))


def _is_spared(node: Node, given: Sequence[int]) -> bool:
    nodes = graph_of(node.functions[0]).nodes
    return any(nodes[name].op not in NO_WORK_OPS for name in _left_out(node.functions[0], given))


def _part(
    function: ConcreteFunction, taken: Sequence[int], given: Sequence[int]
) -> ConcreteFunction:
    """From some of its arguments to some of its outputs."""
    graph = graph_of(function)
    specs, outputs = argument_specs(graph), [graph.outputs[i] for i in given]

    def part(*tensors: Any) -> list[Any]:
        feeds = dict(zip((f"{graph.arguments[i]}:0" for i in taken), tensors, strict=True))
        return replay(graph, _needed(function, given), feeds, outputs)

    return trace("uncork_part", [specs[i] for i in taken], part)


def _trimmed(node: Node, taken: Sequence[int], given: Sequence[int]) -> MapFunction:
    specs = _specs(node)
    function = _part(node.functions[0], taken, given)
    return derive_map_function(
        parameter(node.dataset, "map_func"), function, tuple(specs[i] for i in given)
    )


def _mapped(node: Node, below: Dataset, function: MapFunction) -> Dataset:
    return copy_with_fields(node.dataset, [below], kind_of(node.dataset), map_func=function)


def _passed_on(node: Node, below: Dataset, live: Sequence[int]) -> Dataset:
    if node.kind == "filter":
        asked = derive_map_function(
            parameter(node.dataset, "predicate"), _part(node.functions[0], live, (0,))
        )
        return copy_with_fields(node.dataset, [below], kind_of(node.dataset), predicate=asked)
    return rebuild_batch(below, node) if node.kind == "batch" else rebuild(node.dataset, [below])
