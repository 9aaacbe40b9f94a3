"""A digest of what a pipeline is, equal in every process that runs the same script.

Names of ops and functions, registration tokens and seeds change between processes or runs and say
nothing about the work; they are left out. So is the data itself: only its spec counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_fields import has_parameter, options_bytes, parameter
from uncork.core.base.record import digest
from uncork.pipeline.functions.function_graph import (
    SEEDS_BY_INPUT,
    NodeDef,
    cache_per_function,
    graph_of,
    indexed_name,
    is_control,
    op_name_of,
)
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import has_memoized_python

_IGNORED: Final = frozenset({
    "seed", "seed2", "token", "shared_name", "container", "metadata", "_class", "_output_shapes",
    "_user_specified_name", "_num_original_outputs", "_read_only_resource_inputs", "config",
    "config_proto", "executor_type", "_XlaMustCompile", "_disable_acd", "parallel_iterations",
})  # fmt: skip


def structure_digest(root: Node) -> str:
    """16 hexadecimal digits over kinds, parameters, functions and specs of a whole tree."""
    return digest(*_describe(root))


def _describe(node: Node) -> Iterable[str]:
    dataset = node.dataset
    kind = kind_of(dataset)
    yield f"({node.kind}"
    if node.kind == "opaque":
        yield type(dataset).__name__
    # How many at once depends on the machine; that it may be several, on the script.
    yield "parallel" if has_parameter(dataset, "num_parallel_calls") else "serial"
    if parameter(dataset, "use_inter_op_parallelism", True) is False:
        yield "inline"
    for name in kind.parameters:
        yield f"_{name}={_text(parameter(dataset, name, None))}"
    if node.kind == "options":
        yield options_bytes(dataset.options()).hex()
    if node.kind == "cache":
        yield "memory" if node.is_memory_cache else "file"
    yield from node_functions_digest(node)
    if has_memoized_python(node):
        yield "kept"
    yield repr(dataset.element_spec)
    for child in node.inputs:
        yield from _describe(child)
    yield ")"


def node_functions_digest(node: Node) -> Iterable[str]:
    """Digests of the functions that a node calls; what gathers rows does so of any number."""
    if node.is_row_gather:
        yield "gathers"
        return
    for function in node.functions:
        yield function_digest(function)


def _text(value: Any) -> str:
    if tf.is_tensor(value):
        return repr((value.dtype.name, np.asarray(value.numpy()).tolist()))
    if isinstance(value, (list, tuple)):
        return f"({','.join(map(_text, value))})"
    if isinstance(value, dict):
        return f"{{{','.join(f'{k}:{_text(v)}' for k, v in value.items())}}}"
    return repr(value)


@cache_per_function
def function_digest(function: Any) -> str:
    """Digest of a traced function: ops, attributes, wiring and constants."""
    graph = graph_of(function)
    bodies = _Bodies(graph.library)
    hashes = _merkle(
        graph.nodes, {name: f"arg{i}" for i, name in enumerate(graph.arguments)}, bodies
    )
    shapes = [str(s) for name in graph.arguments for s in graph.shapes[name]]
    outputs = [f"{hashes[op_name_of(r)]}:{_index(r, graph.nodes)}" for r in graph.outputs]
    return digest(*shapes, *outputs, *sorted(hashes[name] for name in graph.effects))


class _Bodies:
    """Digests of library functions, each computed once; a recursive one counts as its own name."""

    def __init__(self, library: Mapping[str, Any]) -> None:
        self._library = library
        self._done: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        if name not in self._done:
            self._done[name] = "recursive"
            self._done[name] = self._digest(self._library[name]) if name in self._library else ""
        return self._done[name]

    def _digest(self, function: Any) -> str:
        nodes = {node.name: node for node in function.node_def}
        arguments = {a.name: f"arg{i}" for i, a in enumerate(function.signature.input_arg)}
        hashes = _merkle(nodes, arguments, self)
        values = [function.ret[a.name] for a in function.signature.output_arg]
        outputs = [f"{hashes[op_name_of(r)]}:{_index(r, nodes)}" for r in values]
        effects = sorted(hashes[name] for name in function.control_ret.values())
        return digest(*outputs, *effects)


def _merkle(
    nodes: Mapping[str, NodeDef], leaves: Mapping[str, str], bodies: _Bodies
) -> dict[str, str]:
    """Each op's digest over itself and, through theirs, all it depends on."""
    done: dict[str, str] = dict(leaves)
    for start in nodes:
        stack = [start]
        while stack:
            node = nodes.get(stack[-1])
            if stack[-1] in done or node is None:
                stack.pop()
                continue
            waiting = [op_name_of(r) for r in node.input if op_name_of(r) not in done]
            if waiting:
                stack.extend(waiting)
            else:
                done[stack.pop()] = _node_digest(node, nodes, done, bodies)
    return done


def _index(reference: str, nodes: Mapping[str, NodeDef]) -> str:
    """Which output of the op, looking through identities as their digest does."""
    while op_name_of(reference) in nodes and nodes[op_name_of(reference)].op == "Identity":
        reference = nodes[op_name_of(reference)].input[0]
    return indexed_name(reference).partition(":")[2]


def _node_digest(
    node: NodeDef, nodes: Mapping[str, NodeDef], done: Mapping[str, str], bodies: _Bodies
) -> str:
    if node.op == "Identity":
        # Tracing wraps every output in one, again each time a function is traced from another.
        return done[op_name_of(node.input[0])]
    if node.op == "NoOp":
        return "order"
    seeds = SEEDS_BY_INPUT.get(node.op, ())
    given = [r for i, r in enumerate(node.input) if not is_control(r) and i not in seeds]
    data = [f"{done[op_name_of(r)]}:{_index(r, nodes)}" for r in given]
    controls = sorted({done[op_name_of(r)] for r in node.input if is_control(r)} - {"order"})
    attributes = [
        f"{name}={_attribute(value, bodies)}"
        for name, value in sorted(node.attr.items())
        if name not in _IGNORED
    ]
    return digest(node.op, *attributes, *data, "|", *controls)


def _attribute(value: Any, bodies: _Bodies) -> str:
    if value.HasField("func"):
        return bodies(value.func.name)
    if value.list.func:
        return ",".join(bodies(f.name) for f in value.list.func)
    raw = value.SerializeToString(deterministic=True)
    return hashlib.sha256(raw).hexdigest() if len(raw) > 64 else raw.hex()
