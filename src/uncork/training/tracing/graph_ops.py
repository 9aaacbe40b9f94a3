"""Ops of the graphs that this process has traced, found by the names that their kernels have."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tf.functions import FuncGraph, tracing_order

# Bodies of loops and branches are lowered: what stands before their ops' own names.
_LOWERED: Final = re.compile(r".*/[a-z_]+/_\d+/")
_BODY: Final = re.compile(r"/(?:body|cond)/_\d+/")
_LOOPS: Final = frozenset({"While", "StatelessWhile"})
_FEEDS: Final = frozenset({"IteratorGetNext", "OptionalGetValue"})
# Functions that stay functions, and how TensorFlow names one that is traced as a graph of a name.
_CALL: Final = "PartitionedCall"
_LAST_NUMBER: Final = re.compile(r"_\d+$")
_FUNCTION: Final = re.compile(r"__(?:inference|forward)_(.+)_\d+")


class GraphOps:
    """All ops of all graphs that live.

    Example:
        >>> step = tf.function(lambda x: tf.square(x, name="area"), autograph=False)
        >>> _ = step(tf.constant(3.0))
        >>> GraphOps().op_of_kernel("area").type
        'Square'
    """

    def __init__(self) -> None:
        # Where two graphs have an op of one name, that of the one that was traced last.
        self._ops = {op.name: op for graph in find_live_graphs() for op in graph.get_operations()}
        self._of_batch: dict[int, frozenset[str]] = {}
        self._compiled: dict[str, list[Any]] = {}
        for name, call in _compiled(self._ops.values()):
            self._compiled.setdefault(name, []).append(call)

    def op_of_kernel(self, name: str) -> Any:
        """The op of a kernel; None where the optimizer of graphs has made it.

        Args:
            name: Of the kernel, with the loops and branches that it stands in.
        """
        return self._ops.get(_LOWERED.sub("", name))

    def loop_of_kernel(self, name: str) -> Any:
        """The outermost loop in whose body a kernel stands, forward or its gradient; else None."""
        before, *inside = _BODY.split(name)
        parts = before.removeprefix("gradient_tape/").split("/") if inside else []
        for end in range(1, len(parts) + 1):
            found = self._ops.get("/".join(parts[:end]))
            if found is not None and found.type in _LOOPS:
                return found
        return None

    def compiled_calls(self, op: Any) -> list[Any]:
        """Calls of functions that XLA compiles by themselves, in one of which an op stands, or is.

        Nothing where there are none. What XLA runs has the names that ops have inside, and
        functions that are traced from the same code name theirs alike.
        """
        if is_compiled_call(op):
            return [op]
        return [] if op is None else self._compiled.get(_unnumbered(op.graph.name), [])

    def is_batch_dependent(self, op: Any) -> bool:
        """Whether an op depends on what the step is given, and on no weight."""
        graph = op.graph
        if id(graph) not in self._of_batch:
            self._of_batch[id(graph)] = frozenset(_of_batch(graph))
        return op.name in self._of_batch[id(graph)]


def is_compiled_call(op: Any) -> bool:
    """Whether an op calls a function that XLA compiles by itself, as Keras does some layers'."""
    if op is None or not op.type.endswith(_CALL):
        return False
    try:
        return bool(op.get_attr("_XlaMustCompile"))
    except ValueError:  # it has no such attribute
        return False


def _compiled(ops: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Names of graphs, and the calls of the functions that XLA makes of them."""
    for op in filter(is_compiled_call, ops):
        name = _FUNCTION.fullmatch(op.get_attr("f").name)
        if name:
            yield _unnumbered(name[1]), op


def _unnumbered(name: str) -> str:
    return _LAST_NUMBER.sub("", name)


def find_live_graphs() -> list[Any]:
    """Of traced functions, in the order of tracing."""
    # Their type is asked, not they: proxies of all kinds are among these objects.
    graphs = [found for found in gc.get_objects() if issubclass(type(found), FuncGraph)]
    return sorted(graphs, key=tracing_order)


def _of_batch(graph: Any) -> Iterator[str]:
    captured = {tensor.op.name for tensor in graph.internal_captures}
    given: set[str] = set()
    weighed: set[str] = set()
    for op in graph.get_operations():
        inputs = [tensor.op.name for tensor in op.inputs]
        if any(name in weighed for name in inputs) or _reads_weights(op):
            weighed.add(op.name)
        elif _is_given(op, captured):
            given.add(op.name)
        elif any(name in given for name in inputs):
            given.add(op.name)
            yield op.name


def _is_given(op: Any, captured: set[str]) -> bool:
    if op.type in _FEEDS:
        return True
    is_argument = op.type == "Placeholder" and op.name not in captured
    return is_argument and op.outputs[0].dtype not in (tf.resource, tf.variant)


def _reads_weights(op: Any) -> bool:
    """A variable of floats is read; tables and the states of generators hold none."""
    reads = any(tensor.dtype == tf.resource for tensor in op.inputs)
    return reads and any(tensor.dtype.is_floating for tensor in op.outputs)
