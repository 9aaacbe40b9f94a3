"""What a map function does: is it deterministic, and where does its random part begin?

A function such as *read, decode, resize, random flip, scale* is deterministic up to the flip. Cut
there, the first part may run in parallel and be cached, the rest draws its numbers as before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import tensorflow as tf

from uncork.core.stack import is_users, place
from uncork.pipeline.graphs import (
    ConcreteFunction,
    Graph,
    NodeDef,
    Tensor,
    called,
    full_name,
    graph_of,
    is_control,
    op_def,
    op_of,
    replay,
    trace,
)

PYTHON_OPS: Final = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})

# Registered as stateful, for reasons other than keeping state: Assert so that it is not pruned,
# sources so that they are not folded into a constant.
REPEATABLE_STATEFUL: Final = frozenset({
    "Assert", "TensorSliceDataset", "TensorDataset", "RangeDataset", "TextLineDataset",
    "TFRecordDataset", "TFRecordDatasetV2", "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2",
})  # fmt: skip

# Datasets made inside interleave and flat_map functions that give the same elements every time.
REPEATABLE_DATASETS: Final = REPEATABLE_STATEFUL | {
    "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "BatchDataset", "BatchDatasetV2",
    "ParallelBatchDataset", "PaddedBatchDataset", "PaddedBatchDatasetV2", "TakeDataset",
    "SkipDataset", "ShardDataset", "FilterDataset", "FlatMapDataset", "InterleaveDataset",
    "ParallelInterleaveDatasetV4", "PrefetchDataset", "ConcatenateDataset", "ZipDataset",
    "WindowDataset", "UnbatchDataset", "RepeatDataset",
}  # fmt: skip

# Judged by the functions they call: the stateful form is used as soon as one branch *may* be.
CALLS: Final = frozenset({
    "PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile",
    "Case", "StatelessCase",
})  # fmt: skip

# Their generators live in the kernel and are safe to share between threads.
DRAWS: Final = frozenset({
    "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal",
    "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoisson", "RandomPoissonV2",
    "RandomShuffle", "Multinomial",
})  # fmt: skip

# Every op that takes a resource is registered as stateful; these only look.
READS: Final = frozenset({"LookupTableFindV2", "LookupTableSizeV2", "ReadVariableOp"})
WRITES: Final = frozenset({"WriteFile", "Save", "SaveV2", "ShardedFilename"})

# Cost next to nothing, and may make an element larger: better done after a cache than before.
CHEAP: Final = frozenset({
    "Cast", "Mul", "RealDiv", "Div", "Sub", "Add", "AddV2", "Maximum", "Minimum", "OneHot",
    "Identity", "Reshape", "ExpandDims", "Squeeze",
})  # fmt: skip
NO_WORK: Final = frozenset({"Placeholder", "Const", "Identity", "NoOp", "Reshape", "ExpandDims"})


def is_stateless(function: ConcreteFunction) -> bool:
    """No random draw, no state, no Python, no table: what TensorFlow runs in parallel unasked."""
    return _Judge(graph_of(function)).all_repeatable()


def is_deterministic(function: ConcreteFunction) -> bool:
    """Same input, same output, always.

    A lookup table counts as state if it may be filled anew between two epochs; a static one cannot.
    """
    return _Judge(graph_of(function), tables=True).all_repeatable()


def is_order_free(function: ConcreteFunction) -> bool:
    """Calls may overlap without changing any result: tables and variables may be read, not more."""
    return _Judge(graph_of(function), resources=True).all_repeatable()


def may_overlap(function: ConcreteFunction) -> bool:
    """Calls may overlap and stay right in distribution: they draw, but keep no other state.

    Which call gets which draw is then left to chance.
    """
    return _Judge(graph_of(function), resources=True, draws=True).all_repeatable()


def stateful_ops(graph: Graph) -> set[str]:
    """Ops that draw or keep state, here or in a function that they call."""
    judge = _Judge(graph, resources=True)
    return {name for name, node in graph.nodes.items() if not judge.repeatable(node)}


def reads_variables(function: ConcreteFunction) -> bool:
    """Some op reads a variable: run further ahead, it may see a value set earlier or later."""
    return "ReadVariableOp" in op_types(function)


def runs_python(function: ConcreteFunction) -> bool:
    """Some op, here or in a function called from here, calls into Python."""
    return bool(op_types(function) & PYTHON_OPS)


def python_at(function: ConcreteFunction) -> str | None:
    """``file.py:line`` of the user's call that made the first op into Python; None if not known."""
    for op in function.graph.get_operations():
        if op.type in PYTHON_OPS:
            frames = [(f.filename, f.lineno) for f in op.traceback or ()]
            return next((place(*f) for f in reversed(frames) if is_users(f[0])), None)
    return None


def op_types(function: ConcreteFunction) -> frozenset[str]:
    """Types of all ops in a function and in those it calls."""
    graph = graph_of(function)
    inner = (node for f in graph.library.values() for node in f.node_def)
    return frozenset(n.op for n in (*graph.nodes.values(), *inner))


class _Judge:
    """Decides op by op whether a graph repeats itself, and looks into called functions.

    Args:
        graph: Of a function.
        tables: Lookups in tables that never change repeat themselves.
        resources: Any table and any variable may be read.
        draws: Random numbers may be drawn.
    """

    def __init__(
        self, graph: Graph, *, tables: bool = False, resources: bool = False, draws: bool = False
    ) -> None:
        self._graph = graph
        self._resources = resources
        self._tables = graph.unchanging if tables else frozenset()
        self._harmless = REPEATABLE_STATEFUL | CALLS
        if draws:
            self._harmless |= DRAWS
        self._bodies: dict[tuple[str, bool], bool] = {}

    def all_repeatable(self) -> bool:
        return all(self.repeatable(node) for node in self._graph.nodes.values())

    def repeatable(self, node: NodeDef) -> bool:
        return self._repeats(node, resources=self._resources or self._reads_tables(node))

    def _repeats(self, node: NodeDef, *, resources: bool) -> bool:
        definition = op_def(node)
        if definition is None:
            return node.op in self._graph.library and self._body(node.op, resources)
        if node.op in PYTHON_OPS | WRITES or (not resources and _holds_resource(node)):
            return False
        if "Dataset" in node.op and not _repeatable_dataset(node):
            return False
        harmless = node.op in self._harmless or (resources and node.op in READS)
        stateful = definition.is_stateful and not harmless
        return not stateful and all(self._body(name, resources) for name in called(node))

    def _body(self, name: str, resources: bool) -> bool:
        key = (name, resources)
        if key not in self._bodies:
            self._bodies[key] = True  # a recursive call adds nothing of its own
            body = self._graph.library.get(name)
            self._bodies[key] = body is not None and all(
                self._repeats(node, resources=resources) for node in body.node_def
            )
        return self._bodies[key]

    def _reads_tables(self, node: NodeDef) -> bool:
        """Every resource that the op, or a function that it calls, takes never changes."""
        if not self._tables:
            return False
        given = [op_of(r) for r in node.input if not is_control(r)] or [node.name]
        handles = {name for name in given if _gives_handle(self._graph.nodes[name])}
        return bool(handles) and handles <= self._tables


def _gives_handle(node: NodeDef) -> bool:
    return op_def(node) is None or tf.resource in output_types(node)


def _repeatable_dataset(node: NodeDef) -> bool:
    if node.op not in REPEATABLE_DATASETS:
        return False
    return node.attr["deterministic"].s != b"false" if "deterministic" in node.attr else True


def _holds_resource(node: NodeDef) -> bool:
    definition = op_def(node)
    declared = definition.input_arg if definition else ()
    if any(a.type == tf.resource.as_datatype_enum for a in declared):
        return True
    return any(
        value.type == tf.resource.as_datatype_enum
        or tf.resource.as_datatype_enum in value.list.type
        for value in node.attr.values()
    )


@dataclass(frozen=True, eq=False)
class Split:
    """Where a map function is cut in two.

    Attributes:
        source: The whole function.
        frontier: Tensors at the cut: the output of the prefix, the input of the rest.
        specs: Their shapes and dtypes.
        ops: How many ops of the prefix do work.
    """

    source: ConcreteFunction
    frontier: tuple[str, ...]
    specs: tuple[tf.TensorSpec, ...]
    ops: int

    @cached_property
    def prefix(self) -> ConcreteFunction:
        """Flat element to the frontier."""
        graph = graph_of(self.source)
        inside = _eligible(graph)
        effects = [f"^{e}" for e in graph.effects if e in inside]

        def prefix(*tensors: Tensor) -> list[Tensor]:
            feeds = dict(zip((f"{a}:0" for a in graph.arguments), tensors, strict=True))
            names = graph.needed([*self.frontier, *effects])
            return replay(graph, names, feeds, self.frontier)

        return trace("uncork_prefix", argument_specs(graph), prefix)

    @cached_property
    def rest(self) -> ConcreteFunction:
        """The frontier to the flat output."""
        graph = graph_of(self.source)
        inside = _eligible(graph)
        effects = [f"^{e}" for e in graph.effects if e not in inside]

        def rest(*tensors: Tensor) -> list[Tensor]:
            feeds = dict(zip(self.frontier, tensors, strict=True))
            names = _rest(graph, inside, self.frontier, effects)
            return replay(graph, names, feeds, graph.outputs)

        return trace("uncork_rest", self.specs, rest)


def _rest(
    graph: Graph, inside: set[str], frontier: tuple[str, ...], effects: list[str]
) -> set[str]:
    """Ops of the second half: an order after an op of the first half holds by itself."""
    found: set[str] = set()
    left = [r for r in (*graph.outputs, *effects) if r not in frontier]
    while left:
        name = op_of(left.pop())
        if name in found:
            continue
        found.add(name)
        for reference in map(full_name, graph.nodes[name].input):
            settled = is_control(reference) and op_of(reference) in inside
            if reference not in frontier and not settled:
                left.append(reference)
    return found


def argument_specs(graph: Graph) -> list[tf.TensorSpec]:
    """Specs of the flat tensors that the function takes."""
    return [spec_of(graph, f"{name}:0") for name in graph.arguments]


def split(function: ConcreteFunction) -> Split | None:
    """Cut a random function behind its deterministic beginning.

    Returns:
        None when there is nothing to gain: the function is deterministic as a whole, or draws
        before it has done any work.
    """
    graph = graph_of(function)
    inside = _eligible(graph)
    if inside >= set(graph.nodes):
        return None
    frontier = _frontier(graph, inside)
    shrunk = tuple(dict.fromkeys(_smallest(graph, reference) for reference in frontier))
    work = [n for n in graph.needed(shrunk) if graph.nodes[n].op not in NO_WORK]
    if not shrunk or not work:
        return None
    return Split(function, shrunk, tuple(spec_of(graph, r) for r in shrunk), len(work))


def _eligible(graph: Graph) -> set[str]:
    """Ops that repeat themselves and depend only on such ops; variants do not cross the cut."""
    judge = _Judge(graph, tables=True)
    inside: set[str] = set()
    for name in _ordered(graph):
        node = graph.nodes[name]
        if all(op_of(r) in inside for r in node.input) and judge.repeatable(node):
            inside.add(name)
    while True:
        # An encoded list or ragged tensor cannot be an element: leave its producer to the rest.
        crossing = {
            op_of(r)
            for r in _frontier(graph, inside)
            if spec_of(graph, r).dtype == tf.variant and op_of(r) not in graph.arguments
        }
        if not crossing:
            return inside
        inside -= with_dependents(graph, crossing)


def _ordered(graph: Graph) -> list[str]:
    """Ops, each after those it needs."""
    order: dict[str, None] = {}
    for name in graph.nodes:
        stack = [name]
        while stack:
            waiting = [op_of(r) for r in graph.nodes[stack[-1]].input if op_of(r) not in order]
            if waiting:
                stack.extend(waiting)
            else:
                order[stack.pop()] = None
    return list(order)


def with_dependents(graph: Graph, names: set[str]) -> set[str]:
    """Some ops, and all that come after them."""
    found = set(names)
    for name in _ordered(graph):
        if any(op_of(r) in found for r in graph.nodes[name].input):
            found.add(name)
    return found


def _varying(graph: Graph) -> set[str]:
    """Ops that depend on the element; the others are constants, cheap to have twice."""
    found = set(graph.arguments)
    for name in _ordered(graph):
        if any(op_of(r) in found for r in graph.nodes[name].input if not is_control(r)):
            found.add(name)
    return found


def _frontier(graph: Graph, inside: set[str]) -> tuple[str, ...]:
    """Tensors computed inside from the element, and used outside."""
    varying = _varying(graph)
    used = [
        full_name(r)
        for name, node in graph.nodes.items()
        if name not in inside
        for r in node.input
        if not is_control(r)
    ]
    crossing = (r for r in (*used, *graph.outputs) if op_of(r) in inside & varying)
    return tuple(dict.fromkeys(crossing))


def _smallest(graph: Graph, reference: str) -> str:
    """The tensor with the fewest bytes from which cheap ops alone lead to ``reference``.

    ``cast(uint8) * (1 / 255)`` is four times larger than what it is made from; doing it after the
    cut gives the same values, because the ops are the same.
    """
    best, current = reference, reference
    varying = _varying(graph)
    while graph.nodes[op_of(current)].op in CHEAP:
        data = [r for r in graph.nodes[op_of(current)].input if op_of(r) in varying]
        if len(data) != 1 or is_control(data[0]):
            break
        current = full_name(data[0])
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


def spec_of(graph: Graph, reference: str) -> tf.TensorSpec:
    """Shape and dtype of a tensor in the graph."""
    name, _, index = reference.partition(":")
    node = graph.nodes[name]
    return tf.TensorSpec(graph.shapes[name][int(index)], output_types(node)[int(index)])


def output_types(node: NodeDef) -> list[Any]:
    """Dtypes of an op's outputs, its number and list attributes resolved."""
    types: list[int] = []
    definition = op_def(node)
    for argument in definition.output_arg if definition else ():
        if argument.type_list_attr:
            types.extend(node.attr[argument.type_list_attr].list.type)
            continue
        one = node.attr[argument.type_attr].type if argument.type_attr else argument.type
        types.extend([one] * (node.attr[argument.number_attr].i if argument.number_attr else 1))
    return [tf.as_dtype(t) for t in types]
