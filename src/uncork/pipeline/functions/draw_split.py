"""A random map function cut in two: one part draws its numbers, the other does the work.

Augmentation is mostly work: a picture is mirrored or not, cropped here or there, and the one number
that decides it costs nothing. Drawn by a small serial map, the numbers are the same and come in the
same order; the work that goes by them repeats itself, and can be done on any thread.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import tensorflow as tf

from uncork.pipeline.functions.effects import (
    can_overlap,
    has_variable_reads,
    is_order_free,
    stateful_ops,
)
from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    Graph,
    Tensor,
    argument_specs,
    graph_of,
    indexed_name,
    is_control,
    op_name_of,
    replay,
    spec_of,
    trace,
)
from uncork.pipeline.functions.splitting import NO_WORK_OPS, with_dependents


@dataclass(frozen=True, eq=False)
class RandomSplit:
    """Where a map function is cut.

    Attributes:
        source: The whole function.
        carried_tensors: Tensors that the first part gives to the second: what was drawn, and of the
            element what the work needs.
        specs: Their shapes and dtypes.
        deterministic_op_count: How many ops of the second part do work.
    """

    source: ConcreteFunction
    carried_tensors: tuple[str, ...]
    specs: tuple[tf.TensorSpec, ...]
    deterministic_op_count: int

    @cached_property
    def draw_function(self) -> ConcreteFunction:
        """Flat element to what is carried."""
        graph = graph_of(self.source)
        inside = _drawing(graph)
        effects = [f"^{effect}" for effect in graph.effects if effect in inside]

        def draw(*tensors: Tensor) -> list[Tensor]:
            feeds = dict(zip((f"{a}:0" for a in graph.arguments), tensors, strict=True))
            names = graph.required_ops([*self.carried_tensors, *effects])
            return replay(graph, names, feeds, self.carried_tensors)

        return trace("uncork_draw", argument_specs(graph), draw)

    @cached_property
    def work_function(self) -> ConcreteFunction:
        """What is carried to the flat output."""
        graph = graph_of(self.source)
        inside = _drawing(graph)
        effects = [f"^{effect}" for effect in graph.effects if effect not in inside]

        def work(*tensors: Tensor) -> list[Tensor]:
            feeds = dict(zip(self.carried_tensors, tensors, strict=True))
            names = graph.required_ops(
                [*graph.outputs, *effects], stop=_settled(self.carried_tensors, inside)
            )
            return replay(graph, names, feeds, graph.outputs)

        return trace("uncork_work", self.specs, work)


def split_off_draws(function: ConcreteFunction) -> RandomSplit | None:
    """Cut a random function behind its draws.

    Returns:
        None where it draws nothing, keeps other state or runs Python; where it reads a variable,
        which a callback may set between two batches; where all of its work is needed to draw; or
        where what would be carried cannot be an element of a dataset.
    """
    if is_order_free(function) or not can_overlap(function) or has_variable_reads(function):
        return None
    graph = graph_of(function)
    inside = _drawing(graph)
    carried = _carried(graph, inside)
    work = graph.required_ops(graph.outputs, stop=_settled(carried, inside))
    ops = [name for name in work if graph.nodes[name].op not in NO_WORK_OPS]
    specs = tuple(spec_of(graph, reference) for reference in carried)
    again = work & stateful_ops(graph)
    if not ops or again or any(spec.dtype in (tf.variant, tf.resource) for spec in specs):
        return None
    return RandomSplit(function, carried, specs, len(ops))


def _drawing(graph: Graph) -> set[str]:
    """The ops that draw, all that they need to, and the element itself."""
    return graph.required_ops(f"{name}:0" for name in (*stateful_ops(graph), *graph.arguments))


def _settled(carried: Collection[str], inside: Collection[str]) -> list[str]:
    """Where the work begins: what it is given, and what has run by then."""
    return [*carried, *(f"^{name}" for name in inside)]


def _carried(graph: Graph, inside: Collection[str]) -> tuple[str, ...]:
    """Tensors made inside and used outside, but for constants, which are cheap to have twice."""
    changing = with_dependents(graph, {*graph.arguments, *stateful_ops(graph)})
    used = [
        indexed_name(reference)
        for name, node in graph.nodes.items()
        if name not in inside
        for reference in node.input
        if not is_control(reference)
    ]
    crossing = (
        r for r in (*used, *graph.outputs) if op_name_of(r) in inside and op_name_of(r) in changing
    )
    return tuple(dict.fromkeys(crossing))
