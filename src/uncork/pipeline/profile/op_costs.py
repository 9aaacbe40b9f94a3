"""Which ops of a map's function take its time, and which of the user's lines made them.

The function is called on a few elements while TensorFlow's profiler watches. Only how the time is
shared out is taken from there: what a stage costs is measured where it stands in the pipeline.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tf.graphs import function_in
from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_fields import parameter, variant_tensor
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.nested import to_tensor_list
from uncork.compat.tfdata.structured_function import MapFunction
from uncork.core.evidence.stage import OpCost
from uncork.measure.profile.kernels import Kernel, profile_kernels
from uncork.pipeline.functions.function_graph import called_functions
from uncork.pipeline.ir.node import Node
from uncork.pipeline.profile.probes import run_serially
from uncork.pycode.frames.stack import user_location

# TensorFlow's profiler leaves out ops that have run some ninety times, and each look runs these.
_CALLS: Final = 9
# Of the function's time; below it an op is not worth a line.
_TRIFLE: Final = 0.02
# Branches and loops are lowered: what stands before their ops' own names.
_LOWERED: Final = re.compile(r".*/[a-z_]+/_\d+/")


def measure_op_costs(node: Node, elements: Dataset, *, budget_s: float) -> tuple[OpCost, ...]:
    """How the time of a map's function is shared out among its ops, longest first.

    Args:
        node: A map.
        elements: Any dataset of elements as the map is given them.
        budget_s: Seconds for a few calls; one is waited for, and two if the first is quick.

    Returns:
        Nothing where no element can be made, or where the script itself is profiling.

    Example:
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> images = tf.data.Dataset.from_tensors(tf.ones([256, 256])).repeat()
        >>> squared = read_pipeline(images.map(lambda image: image @ image)).root
        >>> measure_op_costs(squared, images, budget_s=1.0)[0].op
        'MatMul'
    """
    function = node.functions[0]
    given: list[list[Any]] = []

    def calls() -> None:
        deadline = time.monotonic() + budget_s
        with tf.device(variant_tensor(node.dataset).device):  # not where the training's ops run
            for tensors in given:
                function(*tensors)
                if time.monotonic() > deadline:
                    return

    kernels: tuple[Kernel, ...] = ()
    # An element that cannot be made is the user's to see; a profiler that runs is the script's.
    with suppress(tf.errors.OpError):
        given += _few(elements, budget_s)
        kernels = profile_kernels(calls) if given else ()
    return tuple(_shared_out(kernels, _Lines(node)))


def _few(elements: Dataset, budget_s: float) -> Iterator[list[Any]]:
    deadline = time.monotonic() + budget_s
    for element in run_serially(elements).take(_CALLS):
        yield to_tensor_list(elements.element_spec, element)
        if time.monotonic() > deadline:
            return


def _shared_out(kernels: tuple[Kernel, ...], lines: _Lines) -> Iterator[OpCost]:
    costs: dict[tuple[str, str | None], float] = defaultdict(float)
    for kernel in kernels:
        costs[kernel.kind, lines.of(kernel.name)] += kernel.seconds
    total_s = sum(costs.values())
    for (op, at), seconds in sorted(costs.items(), key=lambda cost: -cost[1]):
        if total_s > 0 and seconds >= _TRIFLE * total_s:
            yield OpCost(op=op, at=at, share=seconds / total_s)


class _Lines:
    """Lines of the user's that made the ops of a map's function.

    A function that was made from the user's has his ops by their names, and not their lines: these
    are known of the first one.
    """

    def __init__(self, node: Node) -> None:
        # Of two with one name, that of the calling function.
        self._ops = {op.name: op for op in user_ops(node)}

    def of(self, kernel: str) -> str | None:
        """Of a kernel, by its name; of one that TensorFlow has put in, of the scope around it."""
        scope = _LOWERED.sub("", kernel)
        while scope:
            if scope in self._ops:
                return user_location(self._ops[scope].traceback or ())
            scope = scope.rpartition("/")[0]
        return None


def user_ops(node: Node) -> Iterator[Any]:
    """Ops of the user's function behind a map, each with the lines that made it."""
    wrapper = parameter(node.dataset, kind_of(node.dataset).functions[0])
    while isinstance(wrapper, MapFunction) and wrapper.origin is not None:
        wrapper = wrapper.origin
    yield from _ops(wrapper.function.graph)


def _ops(graph: Any) -> Iterator[Any]:
    """Of a graph, after those of the functions, branches and loops that it calls."""
    for op in graph.get_operations():
        for name in called_functions(op.node_def):
            inner = function_in(graph, name)
            yield from _ops(inner.graph) if inner is not None else ()
    yield from graph.get_operations()
