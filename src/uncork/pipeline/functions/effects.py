"""What a map function does beside computing: does it draw, keep state, run Python?

Ops are judged by TensorFlow's own registry, one by one, through every function that they call.
"""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    Graph,
    NodeDef,
    cache_per_function,
    called_functions,
    graph_of,
    is_control,
    op_def,
    op_name_of,
    output_types,
)
from uncork.pycode.frames.stack import user_location

PYTHON_OPS: Final = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})

# Registered as stateful, for reasons other than keeping state: checks so that they are not pruned,
# sources so that they are not folded into a constant.
REPEATABLE_STATEFUL_OPS: Final = frozenset({
    "Assert", "CheckNumerics", "CheckNumericsV2", "CSVDataset", "CSVDatasetV2",
    "TensorSliceDataset", "TensorDataset", "RangeDataset", "TextLineDataset",
    "TFRecordDataset", "TFRecordDatasetV2", "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2",
})  # fmt: skip

# Datasets made inside interleave and flat_map functions that give the same elements every time.
REPEATABLE_DATASET_OPS: Final = REPEATABLE_STATEFUL_OPS | {
    "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "BatchDataset", "BatchDatasetV2",
    "ParallelBatchDataset", "PaddedBatchDataset", "PaddedBatchDatasetV2", "TakeDataset",
    "SkipDataset", "ShardDataset", "FilterDataset", "FlatMapDataset", "InterleaveDataset",
    "ParallelInterleaveDatasetV4", "PrefetchDataset", "ConcatenateDataset", "ZipDataset",
    "WindowDataset", "UnbatchDataset", "RepeatDataset", "OptionsDataset", "TakeWhileDataset",
    "UniqueDataset", "ScanDataset", "RebatchDatasetV2", "AssertCardinalityDataset",
    "DatasetToSingleElement", "ReduceDataset",
}  # fmt: skip

# Judged by the functions they call: the stateful form is used as soon as one branch *may* be.
CALL_OPS: Final = frozenset({
    "PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile",
    "Case", "StatelessCase",
})  # fmt: skip

# Their generators live in the kernel and are safe to share between threads.
RANDOM_OPS: Final = frozenset({
    "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal",
    "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoisson", "RandomPoissonV2",
    "RandomShuffle", "Multinomial", "SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2",
})  # fmt: skip

# Every op that takes a resource is registered as stateful; these only look.
_LOOKUPS: Final = frozenset({"LookupTableFindV2", "LookupTableSizeV2"})
READ_OPS: Final = _LOOKUPS | {"ReadVariableOp"}
# What TensorFlow lowers to switches, and its executor on one thread does not take.
_BRANCHES: Final = frozenset({
    "If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase", "Switch", "RefSwitch",
})  # fmt: skip
WRITE_OPS: Final = frozenset({"WriteFile", "Save", "SaveV2", "ShardedFilename"})


@cache_per_function
def is_stateless(function: ConcreteFunction) -> bool:
    """No random draw, no state, no Python, no table: what TensorFlow runs in parallel unasked."""
    return RepeatabilityChecker(graph_of(function)).is_graph_repeatable()


@cache_per_function
def is_deterministic(function: ConcreteFunction) -> bool:
    """Same input, same output, always.

    A lookup table counts as state if it may be filled anew between two epochs; a static one cannot.
    """
    return RepeatabilityChecker(graph_of(function), allow_static_tables=True).is_graph_repeatable()


@cache_per_function
def is_order_free(function: ConcreteFunction) -> bool:
    """Calls may overlap without changing any result: tables and variables may be read, not more."""
    return RepeatabilityChecker(graph_of(function), allow_resource_reads=True).is_graph_repeatable()


@cache_per_function
def can_overlap(function: ConcreteFunction) -> bool:
    """Calls may overlap and stay right in distribution: they draw, but keep no other state.

    Which call gets which draw is then left to chance.
    """
    return RepeatabilityChecker(
        graph_of(function), allow_resource_reads=True, allow_random_ops=True
    ).is_graph_repeatable()


def stateful_ops(graph: Graph) -> set[str]:
    """Ops that draw or keep state, here or in a function that they call."""
    judge = RepeatabilityChecker(graph, allow_resource_reads=True)
    return {name for name, node in graph.nodes.items() if not judge.is_repeatable(node)}


@cache_per_function
def has_variable_reads(function: ConcreteFunction) -> bool:
    """Some op reads a variable: run further ahead, it may see a value set earlier or later.

    Or a table that may be filled meanwhile.
    """
    ops, graph = op_types(function), graph_of(function)
    if "ReadVariableOp" in ops:
        return True
    variables = {id(variable.handle) for variable in function.graph.variables}
    held = {n for n, t in graph.captures.items() if t.dtype == tf.resource}
    changing = (n for n in held - graph.static_tables if id(graph.captures[n]) not in variables)
    return bool(ops & _LOOKUPS) and any(changing)


def requested_devices(function: ConcreteFunction) -> frozenset[str]:
    """Devices that ops ask for by name, here or in a function called from here."""
    graph = graph_of(function)
    inner = (node for f in graph.library.values() for node in f.node_def)
    return frozenset(node.device for node in (*graph.nodes.values(), *inner) if node.device)


def has_branches(function: ConcreteFunction) -> bool:
    """Some op, here or in a function called from here, chooses what to run next."""
    return bool(op_types(function) & _BRANCHES)


def has_python_calls(function: ConcreteFunction) -> bool:
    """Some op, here or in a function called from here, calls into Python."""
    return bool(op_types(function) & PYTHON_OPS)


def python_code_at(function: ConcreteFunction) -> str | None:
    """``file.py:line`` of the user's call that made the first op into Python; None if not known."""
    for op in function.graph.get_operations():
        if op.type in PYTHON_OPS:
            return user_location(op.traceback or ())
    return None


@cache_per_function
def op_types(function: ConcreteFunction) -> frozenset[str]:
    """Types of all ops in a function and in those it calls."""
    graph = graph_of(function)
    inner = (node for f in graph.library.values() for node in f.node_def)
    return frozenset(n.op for n in (*graph.nodes.values(), *inner))


class RepeatabilityChecker:
    """Decides op by op whether a graph repeats itself, and looks into called functions.

    Args:
        graph: Of a function.
        allow_static_tables: Lookups in tables that never change repeat themselves.
        allow_resource_reads: Any table and any variable may be read.
        allow_random_ops: Random numbers may be drawn.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        allow_static_tables: bool = False,
        allow_resource_reads: bool = False,
        allow_random_ops: bool = False,
    ) -> None:
        self._graph = graph
        self._resources = allow_resource_reads
        self._tables = graph.static_tables if allow_static_tables else frozenset()
        self._harmless = REPEATABLE_STATEFUL_OPS | CALL_OPS
        self._datasets = {n for n, outer in graph.captures.items() if outer.dtype == tf.variant}
        if allow_random_ops:
            self._harmless |= RANDOM_OPS
        self._bodies: dict[tuple[str, bool], bool] = {}

    def is_graph_repeatable(self) -> bool:
        """Every op gives the same again."""
        return all(self.is_repeatable(node) for node in self._graph.nodes.values())

    def is_repeatable(self, node: NodeDef) -> bool:
        """An op gives the same again from the same inputs, and leaves nothing behind.

        What a dataset made outside does, of which a function has but the handle, nobody can see.
        """
        if node.name in self._datasets:
            return False
        return self._repeats(node, resources=self._resources or self._reads_tables(node))

    def _repeats(self, node: NodeDef, *, resources: bool) -> bool:
        definition = op_def(node)
        if definition is None:
            return node.op in self._graph.library and self._body(node.op, resources)
        if node.op in PYTHON_OPS | WRITE_OPS or (not resources and _holds_resource(node)):
            return False
        if "Dataset" in node.op and not _repeatable_dataset(node):
            return False
        harmless = node.op in self._harmless or (resources and node.op in READ_OPS)
        stateful = definition.is_stateful and not harmless
        return not stateful and all(self._body(name, resources) for name in called_functions(node))

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
        given = [op_name_of(r) for r in node.input if not is_control(r)] or [node.name]
        handles = {name for name in given if _gives_handle(self._graph.nodes[name])}
        return bool(handles) and handles <= self._tables


def _gives_handle(node: NodeDef) -> bool:
    return op_def(node) is None or tf.resource in output_types(node)


def _repeatable_dataset(node: NodeDef) -> bool:
    if node.op not in REPEATABLE_DATASET_OPS:
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
