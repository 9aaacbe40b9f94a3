"""Read the graph of a traced function, and trace a part of it again as a function of its own.

Everything works on GraphDef: one form for a function's own ops and for the bodies of the ``cond``,
``while`` and dataset functions that it calls.

Lookup tables that never change.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, Final, TypeVar

import tensorflow as tf

from uncork.compat.tf.eager_context import register_function
from uncork.compat.tf.graphs import registered_op_def
from uncork.pipeline.functions.inlining import inline_calls
from uncork.pycode.purity.referrers import find_owners


def is_static_table(handle: Any) -> bool:
    """A table behind this handle is filled when it is made, and cannot be filled again.

    The handle does not tell: static and mutable tables share one interface. The object that holds
    it does. A table of unknown origin, a restored one for example, is taken for one that changes.

    Args:
        handle: A tensor that a function captured.

    Example:
        >>> import tensorflow as tf
        >>> words = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [1, 2])
        >>> static = tf.lookup.StaticHashTable(words, default_value=0)
        >>> mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int32, 0)
        >>> is_static_table(static.resource_handle), is_static_table(mutable.resource_handle)
        (True, False)
    """
    if handle.dtype != tf.resource:
        return False
    tables: list[Any] = [
        each for each in find_owners(handle) if issubclass(type(each), tf.lookup.StaticHashTable)
    ]
    return any(each.resource_handle is handle for each in tables)


ConcreteFunction = Any
GraphDef = Any
NodeDef = Any
Tensor = Any
Result = TypeVar("Result")


# Of a dataset that a function makes, where its op takes its two seeds.
SEEDS_BY_INPUT: Final = {
    "ShuffleDataset": (2, 3), "ShuffleDatasetV3": (2, 3), "ShuffleAndRepeatDatasetV2": (2, 3),
    "RandomDataset": (0, 1), "RandomDatasetV2": (0, 1),
}  # fmt: skip


def op_name_of(reference: str) -> str:
    """Name of the op that a node's input refers to.

    Example:
        >>> op_name_of("^assert"), op_name_of("cast:1"), op_name_of("mul")
        ('assert', 'cast', 'mul')
    """
    return reference.removeprefix("^").partition(":")[0]


def is_control(reference: str) -> bool:
    """Whether a node's input only orders the two ops."""
    return reference.startswith("^")


@dataclass(frozen=True, eq=False)
class Graph:
    """A traced function as plain data.

    Attributes:
        nodes: Its ops by name, in the order they were made; called functions are in place.
        library: Functions that they call, by name.
        arguments: Names of the placeholders that take an element's flat tensors.
        captures: Placeholder's name to the tensor it stands for (constants, tables, variables).
        outputs: Tensor names, ``op:index``.
        effects: Ops that must run though no output needs them (assertions, prints, assignments).
        proto: The same as a GraphDef.
    """

    nodes: Mapping[str, NodeDef]
    library: Mapping[str, Any]
    arguments: tuple[str, ...]
    captures: Mapping[str, Tensor]
    outputs: tuple[str, ...]
    effects: tuple[str, ...]
    proto: GraphDef

    @cached_property
    def static_tables(self) -> frozenset[str]:
        """Those of the captures that stand for a lookup table that never changes."""
        return frozenset(name for name, outer in self.captures.items() if is_static_table(outer))

    @cached_property
    def shapes(self) -> Mapping[str, tuple[tf.TensorShape, ...]]:
        """Static shapes of every op's outputs."""
        return {
            name: tuple(tf.TensorShape(s) for s in node.attr["_output_shapes"].list.shape)
            for name, node in self.nodes.items()
        }

    def with_proto(self, proto: GraphDef) -> Graph:
        """The same with other attributes on its ops, whose names and wiring stay."""
        return replace(self, nodes={node.name: node for node in proto.node}, proto=proto)

    def required_ops(
        self,
        references: Iterable[str],
        stop: Iterable[str] = (),
        *,
        with_control_inputs: bool = True,
    ) -> set[str]:
        """Ops that the given tensors depend on.

        Args:
            references: The tensors.
            stop: Tensors behind which it is not looked.
            with_control_inputs: Ops that only have to run before others count, too.
        """
        cut = frozenset(stop)
        found: set[str] = set()
        left = [r for r in references if r not in cut]
        while left:
            name = op_name_of(left.pop())
            if name not in found:
                found.add(name)
                taken = (
                    r for r in self.nodes[name].input if with_control_inputs or not is_control(r)
                )
                left.extend(r for r in map(indexed_name, taken) if r not in cut)
        return found

    def consumed_tensors(self, names: Iterable[str]) -> set[str]:
        """The tensors that ops take."""
        inputs = (r for name in names for r in self.nodes[name].input if not is_control(r))
        return set(map(indexed_name, inputs))


def indexed_name(reference: str) -> str:
    """A node's input with its index written out, as outputs are.

    Example:
        >>> indexed_name("mul"), indexed_name("^assert")
        ('mul:0', '^assert')
    """
    return reference if is_control(reference) or ":" in reference else f"{reference}:0"


def cache_per_function(
    analyze: Callable[[ConcreteFunction], Result],
) -> Callable[[ConcreteFunction], Result]:
    """A question that is answered once for each traced function, none of which ever changes."""
    known: weakref.WeakKeyDictionary[ConcreteFunction, Result] = weakref.WeakKeyDictionary()

    @wraps(analyze)
    def answer(function: ConcreteFunction) -> Result:
        if function not in known:
            known[function] = analyze(function)
        return known[function]

    return answer


@cache_per_function
def graph_of(function: ConcreteFunction) -> Graph:
    """The function as data."""
    graph = function.graph
    proto = graph.as_graph_def(add_shapes=True)
    captured = {t.op.name for t in graph.internal_captures}
    library = {f.signature.name: f for f in proto.library.function}
    flat = inline_calls({node.name: node for node in proto.node}, library)
    if flat.replaced_tensors:
        proto = type(proto)(
            node=flat.nodes.values(), library=proto.library, versions=proto.versions
        )
    nodes = {node.name: node for node in proto.node}
    effects = (name for op in graph.control_outputs for name in flat.resolve_control(op.name))
    return Graph(
        nodes=nodes,
        library=library,
        arguments=tuple(t.op.name for t in graph.inputs if t.op.name not in captured),
        captures={
            inner.op.name: outer
            for inner, outer in zip(graph.internal_captures, function.captured_inputs, strict=True)
        },
        outputs=tuple(flat.resolve_tensor(t.name) for t in graph.outputs),
        effects=tuple(name for name in effects if _has_effect(nodes[name])),
        proto=proto,
    )


def _has_effect(node: NodeDef) -> bool:
    """Running it matters even when nobody uses the result; a random draw matters to nobody else."""
    definition = op_def(node)
    return definition is None or (definition.is_stateful and "seed" not in node.attr)


def called_functions(node: NodeDef) -> Iterator[str]:
    """Names of the functions that an op was given (branches, bodies, map functions)."""
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        for function in value.list.func:
            yield function.name


def op_def(node: NodeDef) -> Any | None:
    """The op's registered definition; None for a direct call of a library function."""
    return registered_op_def(node.op)


def argument_specs(graph: Graph) -> list[tf.TensorSpec]:
    """Specs of the flat tensors that the function takes."""
    return [spec_of(graph, f"{name}:0") for name in graph.arguments]


def spec_of(graph: Graph, reference: str) -> tf.TensorSpec:
    """Shape and dtype of a tensor in the graph."""
    name, _, index = reference.partition(":")
    node = graph.nodes[name]
    return tf.TensorSpec(graph.shapes[name][int(index)], output_types(node)[int(index)])


def constant_value(constant: NodeDef) -> Any:
    """The array that a ``Const`` holds."""
    return tf.make_ndarray(constant.attr["value"].tensor)


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


def trace(name: str, specs: Sequence[Any], body: Callable[..., list[Tensor]]) -> ConcreteFunction:
    """A function over flat tensors, as ``tf.data`` traces the user's; draws no op seed."""
    body.__name__ = name
    function = tf.function(
        body,
        input_signature=list(specs),
        autograph=False,
        experimental_attributes={"_tf_data_function": True},
    )
    return function.get_concrete_function()


def replay(
    graph: Graph,
    names: set[str],
    feeds: Mapping[str, Tensor],
    fetches: Sequence[str],
    library: Sequence[Any] | None = None,
) -> list[Tensor]:
    """Import some of a graph's ops into the function being traced.

    Args:
        graph: Where the ops come from.
        names: The ops; what they take from elsewhere is in ``feeds`` or among the captures.
        feeds: Tensors by the name that the ops know them by.
        fetches: Tensor names to return, fed ones included.
        library: Functions to import in place of the graph's own.

    Returns:
        The tensors, in the order of ``fetches``.
    """
    current = tf.compat.v1.get_default_graph()
    # A capture of this function becomes a capture of the new one: the same table, not a copy.
    known = dict(feeds) | {
        f"{name}:0": current.capture(outer)
        for name, outer in graph.captures.items()
        if name in names
    }
    part = tf.compat.v1.GraphDef(versions=graph.proto.versions)
    for name, node in graph.nodes.items():
        if name in names and name not in graph.captures and f"{name}:0" not in feeds:
            part.node.append(_without_outside_controls(node, names, graph))
    part.library.function.extend(graph.proto.library.function if library is None else library)
    _register(part.library.function)
    used = {indexed_name(reference) for node in part.node for reference in node.input}
    wanted = [name for name in fetches if name not in known]
    made = tf.graph_util.import_graph_def(
        part,
        input_map={name: tensor for name, tensor in known.items() if name in used},
        return_elements=wanted,
        name="",
    )
    known |= dict(zip(wanted, made or (), strict=True))
    return [known[name] for name in fetches]


def _register(functions: Iterable[Any]) -> None:
    """Make functions known to the runtime: a dataset's iterator looks them up outside any graph."""
    for function in functions:
        register_function(function)


def _without_outside_controls(node: NodeDef, names: set[str], graph: Graph) -> NodeDef:
    # Ops outside have run before this part is called, so an order among them holds already.
    copy = type(node)()
    copy.CopyFrom(node)
    copy.attr.pop("_output_shapes", None)
    copy.attr.pop("_class", None)
    del copy.input[:]
    copy.input.extend(
        r
        for r in node.input
        if not is_control(r) or (op_name_of(r) in names and op_name_of(r) not in graph.captures)
    )
    return copy
