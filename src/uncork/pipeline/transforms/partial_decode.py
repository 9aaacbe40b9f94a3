"""A map that decodes no more of its images than it crops, or two: one decodes, the next one crops.

Loading and augmenting are often two maps. As one, they are a map that crops what it decodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from uncork.compat.tfdata.dataset_fields import has_parameter, parameter
from uncork.compat.tfdata.structured_function import (
    MapFunction,
    derive_map_function,
    python_function_of,
    variables_of,
)
from uncork.pipeline.analysis.legality import is_synchronous
from uncork.pipeline.functions.crop_detection import CROP_OPS, DECODE_OPS
from uncork.pipeline.functions.effects import has_variable_reads, is_order_free, op_types
from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    Graph,
    Tensor,
    argument_specs,
    graph_of,
    replay,
    trace,
)
from uncork.pipeline.functions.partial_jpeg_decode import decode_crops_only
from uncork.pipeline.ir.node import Node


@dataclass(frozen=True, eq=False)
class PartialDecode:
    """What takes the place of a map, or of two in a row.

    Attributes:
        function: Decodes what it crops.
        map_count: How many it stands for.
        input_node: What it reads from.
    """

    function: MapFunction
    map_count: int
    input_node: Node


def find_partial_decode(node: Node) -> PartialDecode | None:
    """A map that crops what it decodes, or what the map directly below it decodes.

    Legal where the lower map gives the same whenever it is called, and the upper one is called for
    as many elements at once: both are then done by one call, in the place of the upper one.

    Returns:
        None where there is no such image; where the lower map reads a variable, or may run for
        several elements at once, and the upper one may not.

    Example:
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> images = [tf.io.encode_jpeg(tf.zeros([40, 40, 3], tf.uint8)).numpy()] * 4
        >>> decoded = tf.data.Dataset.from_tensor_slices(images).map(tf.io.decode_jpeg)
        >>> found = find_partial_decode(
        ...     read_pipeline(decoded.map(lambda image: image[:9, :9])).root
        ... )
        >>> found.map_count, found.input_node.kind
        (2, 'from_tensor_slices')
    """
    alone = decode_crops_only(node.functions[0])
    own = parameter(node.dataset, "map_func")
    if alone is not None:
        return PartialDecode(derive_map_function(own, alone), 1, node.inputs[0])
    lower = node.inputs[0]
    if lower.kind != "map" or not _may_join(lower, node):
        return None
    both = _joined(lower.functions[0], node.functions[0])
    part = None if both is None else decode_crops_only(both)
    if part is None:
        return None
    below = parameter(lower.dataset, "map_func")
    function = MapFunction(
        part,
        own.output_structure,
        origin=own,
        variables=(*variables_of(below), *variables_of(own)),
        second_origin=below,
        python_function=python_function_of(own),
    )
    return PartialDecode(function, 2, lower.inputs[0])


def _may_join(lower: Node, upper: Node) -> bool:
    function = lower.functions[0]
    if not op_types(function) & DECODE_OPS or not op_types(upper.functions[0]) & CROP_OPS:
        return False
    if not is_order_free(function) or has_variable_reads(function):
        return False
    if is_synchronous(lower) != is_synchronous(upper):
        return False
    # By their classes: a twin for a proof has draws made one call at a time.
    return has_parameter(upper.dataset, "num_parallel_calls") or not has_parameter(
        lower.dataset, "num_parallel_calls"
    )


def _joined(lower: ConcreteFunction, upper: ConcreteFunction) -> ConcreteFunction | None:
    """One behind the other; None where what is handed on is no plain tensor."""
    first, second = graph_of(lower), graph_of(upper)
    specs = argument_specs(second)
    if len(specs) != len(first.outputs) or any(
        spec.dtype in (tf.variant, tf.resource) for spec in specs
    ):
        return None

    def both(*tensors: Tensor) -> list[Tensor]:
        made = _run(first, tensors)
        for tensor, spec in zip(made, specs, strict=True):
            tensor.set_shape(spec.shape)
        return _run(second, made)

    return trace("uncork_joined", argument_specs(first), both)


def _run(graph: Graph, tensors: tuple[Tensor, ...] | list[Tensor]) -> list[Tensor]:
    feeds = dict(zip((f"{a}:0" for a in graph.arguments), tensors, strict=True))
    effects = (f"^{effect}" for effect in graph.effects)
    return replay(graph, graph.required_ops([*graph.outputs, *effects]), feeds, graph.outputs)
