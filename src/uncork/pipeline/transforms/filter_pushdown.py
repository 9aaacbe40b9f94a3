"""A filter asked before the map: what it goes by is often only passed on by the map.

A shard or a skip goes by an element's number alone, which no map changes. A filter's predicate is
put together from two traced functions: the ops of the map that lead to what it looks at, then
its own. Nothing is traced again from the user's code.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.structured_function import MapFunction, derive_map_function
from uncork.pipeline.analysis.legality import has_ignored_errors
from uncork.pipeline.functions.effects import READ_OPS, has_variable_reads, is_order_free
from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    Graph,
    argument_specs,
    graph_of,
    op_name_of,
    replay,
    trace,
)
from uncork.pipeline.functions.splitting import CHEAP_OPS, NO_WORK_OPS
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline

# Elements that these drop are known by where they stand.
INDEX_BASED_KINDS: Final = frozenset({"shard", "skip"})
_REMAINDER: Final = frozenset({"FloorMod", "Mod", "TruncateMod"})


def find_bypassable_maps(
    pipeline: Pipeline, stage: int
) -> tuple[tuple[int, ...], MapFunction | None]:
    """The maps directly below a filter, shard or skip that need not run for what it drops.

    Legal because each of them makes one element of one, by itself alone: whether an element is
    dropped before or after changes nothing for the others. A map on which dropped elements would
    have failed does not fail any more.

    Args:
        pipeline: The tree.
        stage: Of a filter, a shard or a skip.

    Returns:
        Their indices, highest first, nothing where it must stay; and the predicate below the lowest
        of them, None where there is none.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> data = tf.data.Dataset.range(9).map(lambda x: (x, tf.ones([x])))
        >>> find_bypassable_maps(read_pipeline(data.filter(lambda x, ones: x > 3)), 2)[0]
        (1,)
    """
    node = pipeline.stages[stage]
    if has_ignored_errors(pipeline, stage):
        return (), None
    if node.kind in INDEX_BASED_KINDS:
        maps = takewhile(lambda pair: _is_harmless(pair[1]), _maps_below(pipeline, stage))
        return tuple(index for index, _ in maps), None
    if node.kind != "filter" or not _is_movable(node.functions[0]):
        return (), None
    found: list[int] = []
    predicate = None
    function = node.functions[0]
    for index, below in _maps_below(pipeline, stage):
        composed = _composed(below.functions[0], function)
        if composed is None:
            break
        found.append(index)
        function = composed
        predicate = derive_map_function(parameter(node.dataset, "predicate"), function)
    return tuple(found), predicate


def is_index_based(node: Node) -> bool:
    """A shard, or a filter that keeps one of so many elements by their number.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> data = tf.data.Dataset.range(9).enumerate()
        >>> is_index_based(read_pipeline(data.filter(lambda number, x: number % 3 == 0)).root)
        True
        >>> is_index_based(read_pipeline(data.filter(lambda number, x: x % 3 == 0)).root)
        False
    """
    if node.kind == "shard":
        return True
    below = node.inputs[0] if node.inputs else node
    if node.kind != "filter" or below.kind != "zip" or below.inputs[0].kind != "range":
        return False
    graph = graph_of(node.functions[0])
    needed = graph.required_ops(graph.outputs)
    number, *others = graph.arguments
    by_number = number in needed and not needed.intersection(others)
    return by_number and any(graph.nodes[name].op in _REMAINDER for name in needed - {number})


def _maps_below(pipeline: Pipeline, stage: int) -> Iterator[tuple[int, Node]]:
    """The run of maps directly below, highest first."""
    for index in reversed(range(1, stage)):
        below = pipeline.stages[index]
        if below.kind != "map":
            return
        yield index, below


def _is_harmless(node: Node) -> bool:
    """A map that makes an element by itself alone, and leaves nothing behind."""
    return _is_movable(node.functions[0]) and not _speaks(graph_of(node.functions[0]))


def _speaks(graph: Graph) -> bool:
    """It has an assertion or a print; what it looks up is not one."""
    return any(graph.nodes[name].op not in READ_OPS for name in graph.effects)


def _is_movable(function: ConcreteFunction) -> bool:
    """What it reads of a variable may be another value earlier, while other elements are made."""
    return is_order_free(function) and not has_variable_reads(function)


def _composed(mapped: ConcreteFunction, predicate: ConcreteFunction) -> ConcreteFunction | None:
    """The predicate on what the map is given; None where the map works for it."""
    if not _is_movable(mapped):
        return None
    first, second = graph_of(mapped), graph_of(predicate)
    if _speaks(first) or _speaks(second):
        return None
    inner = second.required_ops(second.outputs)
    looked_at = [i for i, name in enumerate(second.arguments) if name in inner]
    passed_on = [first.outputs[i] for i in looked_at]
    outer = first.required_ops(passed_on)
    if any(first.nodes[name].op not in CHEAP_OPS | NO_WORK_OPS for name in outer):
        return None

    def both(*tensors: Any) -> list[Any]:
        feeds = dict(zip((f"{a}:0" for a in first.arguments), tensors, strict=True))
        found = replay(first, outer, feeds, passed_on)
        names = [f"{second.arguments[i]}:0" for i in looked_at]
        asked = inner - set(map(op_name_of, names))
        return replay(second, asked, dict(zip(names, found, strict=True)), second.outputs)

    return trace("uncork_predicate", argument_specs(first), both)
