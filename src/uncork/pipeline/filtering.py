"""A filter asked before the map: what it goes by is often only passed on by the map.

The predicate is put together from two traced functions: the ops of the map that lead to what the
filter looks at, then the filter's own. Nothing is traced again from the user's code.
"""

from __future__ import annotations

from typing import Any

from uncork.pipeline.effects import is_order_free, reads_variables
from uncork.pipeline.graphs import ConcreteFunction, argument_specs, graph_of, op_of, replay, trace
from uncork.pipeline.legality import keeps_order, ordered_by_default
from uncork.pipeline.nodes import MapFunction, derived
from uncork.pipeline.splitting import CHEAP, NO_WORK
from uncork.pipeline.tree import Pipeline


def filtered_first(pipeline: Pipeline, stage: int) -> tuple[tuple[int, ...], MapFunction | None]:
    """The maps directly below a filter that need not run for what it drops.

    Legal because each of them makes one element of one, by itself alone: whether an element is
    dropped before or after changes nothing for the others. A map on which dropped elements would
    have failed does not fail any more.

    Args:
        pipeline: The tree.
        stage: Of a filter.

    Returns:
        Their indices, highest first, and the predicate below the lowest of them; nothing and None
        where the filter must stay.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.tree import read
        >>> data = tf.data.Dataset.range(9).map(lambda x: (x, tf.ones([x])))
        >>> filtered_first(read(data.filter(lambda x, ones: x > 3)), 2)[0]
        (1,)
    """
    node, ordered = pipeline.stages[stage], ordered_by_default(pipeline)
    if node.kind != "filter" or not _is_movable(node.functions[0]):
        return (), None
    found: list[int] = []
    predicate = None
    function = node.functions[0]
    for index in reversed(range(1, stage)):
        below = pipeline.stages[index]
        if below.kind != "map" or not keeps_order(below, ordered=ordered):
            break
        composed = _composed(below.functions[0], function)
        if composed is None:
            break
        found.append(index)
        function = composed
        predicate = derived(node.dataset._predicate, function)
    return tuple(found), predicate


def _is_movable(function: ConcreteFunction) -> bool:
    """What it reads of a variable may be another value earlier, while other elements are made."""
    return is_order_free(function) and not reads_variables(function)


def _composed(mapped: ConcreteFunction, predicate: ConcreteFunction) -> ConcreteFunction | None:
    """The predicate on what the map is given; None where the map works for it."""
    if not _is_movable(mapped):
        return None
    first, second = graph_of(mapped), graph_of(predicate)
    if first.effects or second.effects:
        return None
    inner = second.needed(second.outputs)
    looked_at = [i for i, name in enumerate(second.arguments) if name in inner]
    passed_on = [first.outputs[i] for i in looked_at]
    outer = first.needed(passed_on)
    if any(first.nodes[name].op not in CHEAP | NO_WORK for name in outer):
        return None

    def both(*tensors: Any) -> list[Any]:
        feeds = dict(zip((f"{a}:0" for a in first.arguments), tensors, strict=True))
        found = replay(first, outer, feeds, passed_on)
        names = [f"{second.arguments[i]}:0" for i in looked_at]
        asked = inner - set(map(op_of, names))
        return replay(second, asked, dict(zip(names, found, strict=True)), second.outputs)

    return trace("uncork_predicate", argument_specs(first), both)
