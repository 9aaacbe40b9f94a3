"""A map function cut in two: where does its random part begin, where are its elements smallest?

A function such as *read, decode, resize, random flip, scale* is deterministic up to the flip. Cut
there, the first part may run in parallel and be cached, the rest draws its numbers as before. One
that ends with *cast, scale* can be cut before them: a cache then holds bytes, not floats.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import tensorflow as tf

from uncork.pipeline.functions.commuting import Scaling, find_scalings, minimize_frontier
from uncork.pipeline.functions.effects import RepeatabilityChecker
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

# Cost next to nothing, and may make an element larger: better done after a cache than before.
CHEAP_OPS: Final = frozenset({
    "Cast", "Mul", "RealDiv", "Div", "Sub", "Add", "AddV2", "Maximum", "Minimum", "OneHot",
    "Identity", "Reshape", "ExpandDims", "Squeeze",
})  # fmt: skip
NO_WORK_OPS: Final = frozenset(
    {"Placeholder", "Const", "Identity", "NoOp", "Reshape", "ExpandDims"}
)


@dataclass(frozen=True, eq=False)
class MapSplit:
    """Where a map function is cut in two.

    Attributes:
        source: The whole function.
        frontier: Tensors at the cut: the output of the prefix, the input of the rest.
        specs: Their shapes and dtypes.
        op_count: How many ops of the prefix do work.
        prefix_ops: Those that the prefix may run.
        scalings: What the prefix does besides: the rest only moves about what they scale.
        has_deterministic_rest: The rest repeats itself, too, and is only cheap work that makes
            elements larger.
    """

    source: ConcreteFunction
    frontier: tuple[str, ...]
    specs: tuple[tf.TensorSpec, ...]
    op_count: int
    prefix_ops: frozenset[str]
    scalings: tuple[Scaling, ...] = ()
    has_deterministic_rest: bool = False

    @property
    def working_ops(self) -> tuple[frozenset[str], frozenset[str]]:
        """Ops of the two parts that do work, scalings where the user has them."""
        graph = graph_of(self.source)
        effects = [f"^{e}" for e in graph.effects if e not in self.prefix_ops]
        outputs = list(graph.outputs)
        rest = _rest(graph, outputs, self.prefix_ops, self.frontier, effects)
        parts = (graph.required_ops(self.frontier), rest)
        before, after = (
            frozenset(n for n in part if graph.nodes[n].op not in NO_WORK_OPS) for part in parts
        )
        return before, after

    @cached_property
    def prefix(self) -> ConcreteFunction:
        """Flat element to the frontier."""
        graph = graph_of(self.source)
        effects = [f"^{e}" for e in graph.effects if e in self.prefix_ops]

        def prefix(*tensors: Tensor) -> list[Tensor]:
            feeds = dict(zip((f"{a}:0" for a in graph.arguments), tensors, strict=True))
            names = graph.required_ops([*self.frontier, *effects])
            made = dict(zip(self.frontier, replay(graph, names, feeds, self.frontier), strict=True))
            for each in self.scalings:
                made[each.unmoved_input] = _scaled(graph, each, made[each.unmoved_input], feeds)
            return list(made.values())

        return trace("uncork_prefix", argument_specs(graph), prefix)

    @cached_property
    def rest(self) -> ConcreteFunction:
        """The frontier to the flat output."""
        graph = graph_of(self.source)
        effects = [f"^{e}" for e in graph.effects if e not in self.prefix_ops]

        def rest(*tensors: Tensor) -> list[Tensor]:
            feeds = dict(zip(self.frontier, tensors, strict=True))
            outputs = list(graph.outputs)
            for each in self.scalings:
                outputs[each.output_index] = each.moved_input
            names = _rest(graph, outputs, self.prefix_ops, self.frontier, effects)
            return replay(graph, names, feeds, outputs)

        return trace("uncork_rest", self.specs, rest)


def _scaled(graph: Graph, scaling: Scaling, still: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    """What scales an output, done to the tensor that its values come from.

    Args:
        graph: Of the function.
        scaling: By numbers that may be made from the element.
        still: That tensor.
        given: The function's arguments, by name.
    """
    names = {*scaling.op_names, *graph.required_ops(scaling.scale_tensors)}
    (made,) = replay(graph, names, {**given, scaling.moved_input: still}, [scaling.scaled_output])
    return made


def _rest(
    graph: Graph,
    outputs: list[str],
    inside: Collection[str],
    frontier: tuple[str, ...],
    effects: list[str],
) -> set[str]:
    """Ops of the second half: an order after an op of the first half holds by itself."""
    found: set[str] = set()
    left = [r for r in (*outputs, *effects) if r not in frontier]
    while left:
        name = op_name_of(left.pop())
        if name in found:
            continue
        found.add(name)
        for reference in map(indexed_name, graph.nodes[name].input):
            settled = is_control(reference) and op_name_of(reference) in inside
            if reference not in frontier and not settled:
                left.append(reference)
    return found


def split_deterministic_prefix(function: ConcreteFunction) -> MapSplit | None:
    """Cut a random function behind its deterministic beginning.

    Returns:
        None when there is nothing to gain: the function is deterministic as a whole, or draws
        before it has done any work.
    """
    graph = graph_of(function)
    inside = _eligible(graph)
    return None if inside >= set(graph.nodes) else _cut(function, inside)


def split_narrow_prefix(function: ConcreteFunction) -> MapSplit | None:
    """Cut a deterministic function before the cheap ops that only make its elements larger.

    Returns:
        None where no such ops end it, where nothing else is done, or where it draws.

    Example:
        >>> longest = tf.function(lambda x: tf.cast(tf.reduce_max(x), tf.float64) / 255.0)
        >>> cut = split_narrow_prefix(longest.get_concrete_function(tf.TensorSpec([9], tf.uint8)))
        >>> cut.specs
        (TensorSpec(shape=(), dtype=tf.uint8, name=None),)
    """
    graph = graph_of(function)
    inside = _eligible(graph)
    whole = crossing_tensors(graph, inside)
    if not inside >= set(graph.nodes) or tf.variant in [spec_of(graph, r).dtype for r in whole]:
        return None
    cut = _cut(function, inside)
    size = sum(_bytes(spec_of(graph, reference)) for reference in whole)
    if cut is None or sum(map(_bytes, cut.specs)) >= size:
        return None
    return replace(cut, has_deterministic_rest=True)


def _cut(function: ConcreteFunction, inside: set[str]) -> MapSplit | None:
    """Behind some ops, or before what of them is cheap and makes elements larger."""
    graph = graph_of(function)
    smallest = dict.fromkeys(_smallest(graph, r) for r in crossing_tensors(graph, inside))
    shrunk = minimize_frontier(graph, tuple(smallest), lambda r: _bytes(spec_of(graph, r)))
    work = [n for n in graph.required_ops(shrunk) if graph.nodes[n].op not in NO_WORK_OPS]
    if not shrunk or not work:
        return None
    specs = tuple(spec_of(graph, r) for r in shrunk)
    effects = [f"^{e}" for e in graph.effects if e not in inside]
    rest = _rest(graph, list(graph.outputs), inside, shrunk, effects)
    moved = tuple(find_scalings(graph, shrunk, inside, rest))
    return MapSplit(function, shrunk, specs, len(work), frozenset(inside), moved)


def _eligible(graph: Graph) -> set[str]:
    """Ops that repeat themselves and depend only on such ops; variants do not cross the cut."""
    judge = RepeatabilityChecker(graph, allow_static_tables=True)
    inside: set[str] = set()
    for name in _ordered(graph):
        node = graph.nodes[name]
        if all(op_name_of(r) in inside for r in node.input) and judge.is_repeatable(node):
            inside.add(name)
    while True:
        # An encoded list or ragged tensor cannot be an element: leave its producer to the rest.
        encoded = {
            op_name_of(r)
            for r in crossing_tensors(graph, inside)
            if spec_of(graph, r).dtype == tf.variant and op_name_of(r) not in graph.arguments
        }
        if not encoded:
            return inside
        inside -= with_dependents(graph, encoded)


def _ordered(graph: Graph) -> list[str]:
    """Ops, each after those it needs."""
    order: dict[str, None] = {}
    for name in graph.nodes:
        stack = [name]
        while stack:
            waiting = [
                op_name_of(r) for r in graph.nodes[stack[-1]].input if op_name_of(r) not in order
            ]
            if waiting:
                stack.extend(waiting)
            else:
                order[stack.pop()] = None
    return list(order)


def with_dependents(graph: Graph, names: set[str], excluded_ops: Collection[str] = ()) -> set[str]:
    """Some ops, and all that come after them, but for some and what comes after those alone."""
    found = set(names)
    for name in _ordered(graph):
        if name not in excluded_ops and any(
            op_name_of(r) in found for r in graph.nodes[name].input
        ):
            found.add(name)
    return found


def element_dependent_ops(graph: Graph) -> set[str]:
    """Ops that depend on the element; the others are constants, cheap to have twice."""
    found = set(graph.arguments)
    for name in _ordered(graph):
        if any(op_name_of(r) in found for r in graph.nodes[name].input if not is_control(r)):
            found.add(name)
    return found


def crossing_tensors(graph: Graph, inside: set[str]) -> tuple[str, ...]:
    """Tensors computed inside from the element, and used outside."""
    changing = element_dependent_ops(graph)
    used = [
        indexed_name(r)
        for name, node in graph.nodes.items()
        if name not in inside
        for r in node.input
        if not is_control(r)
    ]
    found = (r for r in (*used, *graph.outputs) if op_name_of(r) in inside & changing)
    return tuple(dict.fromkeys(found))


def _smallest(graph: Graph, reference: str) -> str:
    """The tensor with the fewest bytes from which cheap ops alone lead to ``reference``.

    ``cast(uint8) * (1 / 255)`` is four times larger than what it is made from; doing it after the
    cut gives the same values, because the ops are the same.
    """
    best, current = reference, reference
    changing = element_dependent_ops(graph)
    while graph.nodes[op_name_of(current)].op in CHEAP_OPS:
        data = [r for r in graph.nodes[op_name_of(current)].input if op_name_of(r) in changing]
        if len(data) != 1 or is_control(data[0]):
            break
        current = indexed_name(data[0])
        spec = spec_of(graph, current)
        if spec.dtype == tf.variant:
            break
        if _bytes(spec) < _bytes(spec_of(graph, best)):
            best = current
    return best


def _bytes(spec: tf.TensorSpec) -> float:
    """Bytes of one tensor; unknown dimensions count as 64, alike on both sides of an op."""
    size = spec.dtype.size if spec.dtype not in (tf.string, tf.variant) else 64
    if spec.shape.rank is None:
        return float(size * 64**3)
    return float(size * math.prod(64 if d is None else d for d in spec.shape))
