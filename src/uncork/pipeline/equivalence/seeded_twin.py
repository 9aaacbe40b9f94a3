"""A twin of a pipeline whose random numbers are fixed, so that a rewrite can be proved.

Two unseeded pipelines never agree, rewritten or not. Give every unseeded draw a seed, rewrite the
twin with the real code, and the elements must be equal one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import PASS_COUNTING_SOURCES, kind_of
from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields, rebuild
from uncork.compat.tfdata.structured_function import derive_map_function, variables_of
from uncork.core.base.record import digest
from uncork.pipeline.functions.effects import has_python_calls, is_order_free
from uncork.pipeline.functions.function_graph import (
    SEEDS_BY_INPUT,
    ConcreteFunction,
    Graph,
    NodeDef,
    argument_specs,
    constant_value,
    graph_of,
    op_def,
    op_name_of,
    replay,
    trace,
)
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import python_functions, user_generator_of
from uncork.pipeline.ir.tree import Pipeline, read_pipeline, rebuild_tree
from uncork.pycode.purity.random_draws import RandomStates
from uncork.pycode.purity.reachability import find_reachable_from_function

# Made anew even where nothing changes: a shuffle counts its epochs, a cache fills.
_KEEP_STATE: Final = PASS_COUNTING_SOURCES | {"shuffle", "cache"}


def create_seeded_copy(pipeline: Pipeline, seed: int) -> Pipeline:
    """The same pipeline with every unseeded shuffle and random op seeded; its digest is the same.

    Ops that have seeds keep them. Maps that draw in parallel are run one call at a time, because
    the order in which parallel calls draw is left to chance. Shuffles start at their first epoch
    and caches empty, whatever the original has been through: make one twin for each thing
    compared. What lies outside the graph (Python functions, files) is not fixed.

    Args:
        pipeline: As read; apply edits to the twin, they still fit.
        seed: Another one gives other draws.
    """
    seeds = _Seeds(seed)
    return read_pipeline(
        rebuild_tree(pipeline.root, lambda node, inputs: _twin(node, inputs, seeds))
    )


def find_draw_seeds(pipeline: Pipeline) -> tuple[str, ...]:
    """Seeds of all shuffles and random ops, each pair once: which functions have them is left out.

    Example:
        >>> find_draw_seeds(read_pipeline(tf.data.Dataset.range(9).shuffle(9, seed=3)))
        ('87654321 3',)
    """
    found = []
    for place in pipeline.stage_locations:
        node = place.node
        if node.kind in ("shuffle", "random"):
            found.append([int(parameter(node.dataset, name)) for name in ("seed", "seed2")])
        for graph in map(graph_of, node.functions):
            scopes = ([*graph.nodes.values()], *(f.node_def for f in graph.library.values()))
            found += [
                [each.attr["seed"].i, each.attr["seed2"].i]
                for scope in scopes
                for each in scope
                if "seed" in each.attr and "seed2" in each.attr
            ]
    return tuple(sorted({f"{first} {second}" for first, second in found}))


class _Seeds:
    """Hands out one pair of seeds after the other, in the order in which ops are visited."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._next = count(1)

    def pair(self) -> tuple[int, int]:
        return self._seed, next(self._next)


def _twin(node: Node, inputs: Sequence[Dataset], seeds: _Seeds) -> Dataset:
    if kind_of(node.dataset).create_variant is None or not (
        inputs or node.kind in PASS_COUNTING_SOURCES
    ):
        return node.dataset
    fields = _seeded_fields(node, seeds)
    if not fields and node.kind not in _KEEP_STATE:
        return rebuild(node.dataset, inputs)
    return copy_with_fields(node.dataset, inputs, kind_of(node.dataset), **fields)


def _seeded_fields(node: Node, seeds: _Seeds) -> dict[str, Any]:
    dataset = node.dataset
    if node.kind in ("shuffle", "random"):
        if int(parameter(dataset, "seed")) or int(parameter(dataset, "seed2")):
            return {}
        first, second = seeds.pair()
        return {"seed": tf.constant(first, tf.int64), "seed2": tf.constant(second, tf.int64)}
    fields: dict[str, Any] = {}
    for name in kind_of(dataset).functions:
        wrapper = parameter(dataset, name)
        if _unseeded(graph_of(wrapper.function)):
            fields[name] = derive_map_function(wrapper, _reseed(wrapper.function, seeds))
        if node.kind == "map" and node.parallelism != 1 and not is_order_free(wrapper.function):
            fields["num_parallel_calls"] = tf.constant(1, tf.int64)
    return fields


def _is_unseeded(node: NodeDef) -> bool:
    definition = op_def(node)
    return (
        definition is not None
        and definition.is_stateful
        and "seed" in node.attr
        and "seed2" in node.attr
        and node.attr["seed"].i == 0
        and node.attr["seed2"].i == 0
    )


def _unseeded(graph: Graph) -> bool:
    scopes = ([*graph.nodes.values()], *(f.node_def for f in graph.library.values()))
    return any(_is_unseeded(n) or _zeros(n, scope) for scope in scopes for n in scope)


def _zeros(node: NodeDef, scope: Iterable[NodeDef]) -> list[NodeDef]:
    """The constants that a dataset in a function takes for seeds; none where it has seeds."""
    names = [op_name_of(node.input[i]) for i in SEEDS_BY_INPUT.get(node.op, ())]
    found = [n for name in names for n in scope if n.name == name and n.op == "Const"]
    return found if len(found) == len(names) and not any(map(constant_value, found)) else []


def _reseed(function: ConcreteFunction, seeds: _Seeds) -> ConcreteFunction:
    graph = graph_of(function)
    altered, library = _seeded_copy(graph, seeds)

    def twin(*tensors: Any) -> list[Any]:
        feeds = dict(zip((f"{a}:0" for a in graph.arguments), tensors, strict=True))
        names = altered.required_ops([*graph.outputs, *(f"^{e}" for e in graph.effects)])
        return replay(altered, names, feeds, graph.outputs, library)

    return trace("uncork_seeded", argument_specs(graph), twin)


def _seeded_copy(graph: Graph, seeds: _Seeds) -> tuple[Graph, list[Any]]:
    """Nodes and functions with seeds; functions get new names, or the old ones would be kept."""
    proto = type(graph.proto)()
    proto.CopyFrom(graph.proto)
    first, second = seeds.pair()
    suffix = f"_seeded_{first}_{second}_{id(graph):x}"
    bodies = sorted(proto.library.function, key=lambda f: _position(f.signature.name, graph))
    scopes = (proto.node, *(f.node_def for f in bodies))
    for node, around in [(node, nodes) for nodes in scopes for node in nodes]:
        if _is_unseeded(node):
            node.attr["seed"].i, node.attr["seed2"].i = seeds.pair()
        zeros = _zeros(node, around)
        for constant, number in zip(zeros, seeds.pair() if zeros else (), strict=True):
            constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(number, tf.int64))
        if "parallel_iterations" in node.attr:
            # Iterations of one loop would race for the next number of the same op.
            node.attr["parallel_iterations"].i = 1
        _rename_calls(node, graph, suffix)
    for body in bodies:
        body.signature.name += suffix
    altered = Graph(
        nodes={node.name: node for node in proto.node},
        library={f.signature.name: f for f in bodies},
        arguments=graph.arguments,
        captures=graph.captures,
        outputs=graph.outputs,
        effects=graph.effects,
        proto=proto,
    )
    return altered, bodies


def _position(name: str, graph: Graph) -> int:
    # The order of the library is the order of tracing, the same whenever the script runs.
    return list(graph.library).index(name)


def _rename_calls(node: NodeDef, graph: Graph, suffix: str) -> None:
    if node.op in graph.library:
        node.op += suffix
    for value in node.attr.values():
        if value.HasField("func") and value.func.name in graph.library:
            value.func.name += suffix
        for function in value.list.func:
            if function.name in graph.library:
                function.name += suffix


def pipeline_variables(pipeline: Pipeline) -> list[Any]:
    """Variables that the pipeline's functions may read or change, such as random generators'."""
    found: dict[int, Any] = {}

    def visit(node: Node) -> None:
        for name in kind_of(node.dataset).functions:
            found.update({id(v): v for v in variables_of(parameter(node.dataset, name))})
        for below in node.inputs:
            visit(below)

    visit(pipeline.root)
    return list(found.values())


@contextmanager
def preserve_state(pipeline: Pipeline) -> Iterator[None]:
    """Put what the pipeline's functions change back as it was, whatever happens inside.

    Variables; and of functions that run Python, the random states that they can get at.
    """
    before = [(v, v.read_value()) for v in pipeline_variables(pipeline)]
    draws = _python_draws(pipeline)
    try:
        yield
    finally:
        for variable, value in before:
            variable.assign(value)
        if draws is not None:
            draws.restore()


def python_state_digest(pipeline: Pipeline) -> str:
    """Digest of all that the Python code of a pipeline can get at; ``""`` where nobody can tell."""
    found = [find_reachable_from_function(python).digest for python in _python_code(pipeline)]
    return digest(*found) if found and all(found) else ""


def _python_draws(pipeline: Pipeline) -> RandomStates | None:
    called = _python_code(pipeline)
    generators = {
        id(g): g for python in called for g in find_reachable_from_function(python).generators
    }
    return RandomStates(list(generators.values())) if called else None


def _python_code(pipeline: Pipeline) -> list[Any]:
    functions = [f for place in pipeline.stage_locations for f in place.node.functions]
    if not any(map(has_python_calls, functions)):
        return []
    called = [python for f in functions for python in python_functions(f).values()]
    return [
        *called,
        *filter(None, (user_generator_of(place.node) for place in pipeline.stage_locations)),
    ]
