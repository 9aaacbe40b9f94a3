"""Scaling behind ops that only move values about: it may as well come before them.

A random flip, then a division by 255, gives the same bits as dividing first: a flip picks values,
and makes none. What comes before it can be kept, or done in parallel; what comes behind it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from uncork.pipeline.functions.function_graph import (
    Graph,
    indexed_name,
    is_control,
    op_name_of,
    spec_of,
)

# Rounded alike wherever a value stands: no functions that are approximated, many values at a time.
_SCALING: Final = frozenset({"Mul", "RealDiv", "Sub", "Add", "AddV2", "Maximum", "Minimum"})
# Their first input holds the values that they give.
_MOVING: Final = frozenset({"Identity", "ReverseV2", "ExpandDims", "Squeeze"})
_BRANCHING: Final = frozenset({"If", "StatelessIf"})


@dataclass(frozen=True)
class Scaling:
    """Ops at the end of a function that scale each value of a tensor by itself.

    Attributes:
        output_index: Index of the function's output that they give.
        moved_input: The tensor that they take.
        unmoved_input: The tensor that its values come from, before they are moved about.
        op_names: Their names.
        scale_tensors: What they scale by.
        scaled_output: The tensor that they give.
    """

    output_index: int
    moved_input: str
    unmoved_input: str
    op_names: frozenset[str]
    scale_tensors: tuple[str, ...]
    scaled_output: str


def find_scalings(
    graph: Graph, frontier: Collection[str], prefix_ops: Collection[str], rest_ops: Collection[str]
) -> list[Scaling]:
    """What can be done to tensors at a cut instead of to outputs behind it.

    Args:
        graph: Of a function.
        frontier: Tensors at the cut.
        prefix_ops: Ops that could stand before it.
        rest_ops: Ops that stand behind it.
    """
    found: list[Scaling] = []
    for output, reference in enumerate(graph.outputs):
        moved, ops = _behind(graph, reference, prefix_ops)
        tree: set[str] = set()
        still = _origin(graph, moved, frontier, tree)
        if not ops or still not in frontier or still == moved:
            continue
        between = tree | ops
        users = (_data(graph, name) for name in set(rest_ops) - between)
        taken = [*graph.outputs[:output], *graph.outputs[output + 1 :], *chain.from_iterable(users)]
        if not any(each == still or op_name_of(each) in between for each in taken):
            found.append(Scaling(output, moved, still, ops, _numbers(graph, ops, moved), reference))
    return found


def _data(graph: Graph, name: str) -> list[str]:
    """The tensors that an op takes."""
    return [indexed_name(r) for r in graph.nodes[name].input if not is_control(r)]


def _numbers(graph: Graph, ops: Collection[str], moved: str) -> tuple[str, ...]:
    taken = {r for name in ops for r in _data(graph, name)} - {moved}
    return tuple(sorted(r for r in taken if op_name_of(r) not in ops))


def _behind(graph: Graph, reference: str, inside: Collection[str]) -> tuple[str, frozenset[str]]:
    """Where the scaling of an output begins, and its ops; none where nothing is scaled."""
    ops: list[str] = []
    while op_name_of(reference) not in inside:
        data = _scaled(graph, op_name_of(reference), inside)
        if data is None:
            break
        ops.append(op_name_of(reference))
        reference = data
    scales = any(graph.nodes[name].op in _SCALING for name in ops)
    return reference, frozenset(ops if scales else ())


def _scaled(graph: Graph, name: str, inside: Collection[str]) -> str | None:
    """The tensor whose values an op scales, each by itself and by the same number."""
    node, data = graph.nodes[name], _data(graph, name)
    if node.op == "Identity":
        return data[0]
    if node.op not in _SCALING:
        return None
    numbers = [r for r in data if op_name_of(r) in inside and spec_of(graph, r).shape.rank == 0]
    others = [r for r in data if r not in numbers]
    return others[0] if len(others) == 1 else None


def _origin(graph: Graph, reference: str, frontier: Collection[str], tree: set[str]) -> str:
    """The tensor whose values another one holds, in whatever order.

    Args:
        graph: Of a function.
        reference: The other one.
        frontier: Where to stop.
        tree: Takes up the ops that lead from the one to the other.
    """
    node = graph.nodes[op_name_of(reference)]
    if reference in frontier:
        return reference
    sources = {_origin(graph, each, frontier, tree) for each in _moved(graph, node, reference)}
    if len(sources) != 1:
        return reference
    tree.add(node.name)
    return sources.pop()


def _moved(graph: Graph, node: Any, reference: str) -> list[str]:
    """The tensors whose values an op gives, of one or of the other; none where it makes any."""
    data = _data(graph, node.name)
    if node.op in _MOVING:
        return data[:1]
    if node.op == "SelectV2":
        return data[1:]
    if node.op not in _BRANCHING:
        return []
    number = int(reference.partition(":")[2])
    bodies = [graph.library.get(node.attr[f"{way}_branch"].func.name) for way in ("then", "else")]
    if not all(body is not None and _only_moves(body) for body in bodies):
        return []  # a check or a print would see scaled values
    taken = [_argument(body, number) for body in bodies]
    return [data[1 + index] for index in taken if index is not None] if None not in taken else []


def _only_moves(body: Any) -> bool:
    return all(node.op in _MOVING | {"Const", "NoOp"} for node in body.node_def)


def _argument(body: Any, number: int) -> int | None:
    """Which argument's values a function gives as one of its results; None where it makes them."""
    nodes = {node.name: node for node in body.node_def}
    arguments = [argument.name for argument in body.signature.input_arg]
    reference = body.ret[body.signature.output_arg[number].name]
    while reference.partition(":")[0] in nodes:
        node = nodes[reference.partition(":")[0]]
        if node.op not in _MOVING:
            return None
        reference = node.input[0]
    return arguments.index(reference) if reference in arguments else None


def minimize_frontier(
    graph: Graph, frontier: Sequence[str], bytes_of: Callable[[str], float]
) -> tuple[str, ...]:
    """A cut where tensors that hold the same values, moved about, are replaced by one of them.

    Args:
        graph: Of a function.
        frontier: Tensors at the cut.
        bytes_of: One of them.
    """
    chains = {reference: list(_chain(graph, reference)) for reference in frontier}
    best = tuple(frontier)
    for shared in dict.fromkeys(chain.from_iterable(chains.values())):
        replaced = [shared if shared in chains[r] else r for r in frontier]
        tried = tuple(dict.fromkeys(replaced))
        if sum(map(bytes_of, tried)) < sum(map(bytes_of, best)):
            best = tried
    return best


def _chain(graph: Graph, reference: str) -> Iterator[str]:
    """A tensor, and those before it that hold the same values."""
    yield reference
    node = graph.nodes[op_name_of(reference)]
    if node.op in _MOVING:
        yield from _chain(graph, _data(graph, node.name)[0])
