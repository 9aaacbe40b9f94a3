"""The last maps of a pipeline, which can also run on the device of the training step.

A map that makes floats of bytes makes four bytes of each, and all of them are sent to the device
that trains. Done there, the same ops make the same numbers of a quarter of the bytes. Rows that a
batch is gathered from can be there already: then their numbers are all that is sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.errors import EditRefused
from uncork.core.base.record import digest
from uncork.core.edits.pipeline import GatherLast, VectorizeMap
from uncork.core.evidence.stage import StepOffload
from uncork.pipeline.analysis.graph_rewrites import shuffle_fusion_flags
from uncork.pipeline.analysis.legality import BATCH_KINDS
from uncork.pipeline.functions.device_copy import DeviceFunction
from uncork.pipeline.functions.effects import is_order_free
from uncork.pipeline.functions.function_graph import ConcreteFunction, Tensor, graph_of
from uncork.pipeline.functions.splitting import CHEAP_OPS
from uncork.pipeline.ir.digest import node_functions_digest
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, StageLocation, read_pipeline
from uncork.pipeline.transforms.apply import apply_edit, rebuild_onto
from uncork.pipeline.transforms.late_gather import is_numeric_dtype, skip_identities

# Stages that hand on what they are given, one by one, whatever it is.
_HANDING_ON: Final = frozenset({"prefetch", "options", "assert_cardinality", "repeat"})
# Beside cheap work: what moves values about, and what the vectoriser of maps asks of shapes. Every
# device has kernels for these, and XLA compiles them.
_ANYWHERE: Final = CHEAP_OPS | {
    "Placeholder", "Const", "NoOp", "IdentityN", "Neg", "Shape", "StridedSlice", "ConcatV2", "Pack",
    "Unpack", "Transpose", "ReverseV2", "BroadcastTo", "Tile", "Fill", "Range", "Rank", "Size",
    "ZerosLike", "OnesLike", "BiasAdd", "Sqrt", "Rsqrt", "Split", "Prod", "SelectV2", "GatherV2",
    "Greater", "Less", "Equal", "LogicalAnd", "Max", "Min", "PlaceholderWithDefault", "Bitcast",
}  # fmt: skip
# Bytes of what a function holds beside rows (a mean image, say), put on the device with it.
_MOST_HELD: Final = 1 << 26
_UNKNOWN: Final = 64
# What a run of maps may begin with: the lowest of them, or arrays, alone or zipped.
_BEGINNINGS: Final = frozenset({"map", "from_tensor_slices", "zip"})
# Where the dataset object of a map remembers what was put on devices.
_PLACED: Final = "_uncork_placed"


@dataclass(frozen=True, eq=False)
class TrailingMaps:
    """Maps that nothing but handing on is done behind.

    Attributes:
        maps: One above the other, the lowest first.
        input_dataset: The pipeline without them.
    """

    maps: tuple[Node, ...]
    input_dataset: Dataset

    @property
    def functions(self) -> tuple[ConcreteFunction, ...]:
        """Of flat tensors, in the order of the maps."""
        return tuple(node.functions[0] for node in self.maps)

    @property
    def element_spec(self) -> Any:
        """Of the elements that they give."""
        return self.maps[-1].dataset.element_spec

    @property
    def digest(self) -> str:
        """Equal for maps that do the same; of gathered rows, whatever these hold."""
        return digest(*(each for node in self.maps for each in node_functions_digest(node)))

    @property
    def passthrough_inputs(self) -> tuple[int | None, ...]:
        """Of each flat tensor that they give, which of those given it is; None for what is made."""
        origins: Sequence[int | None] = range(len(tf.nest.flatten(self.input_dataset.element_spec)))
        for function in self.functions:
            graph = graph_of(function)
            numbers = dict(zip(graph.arguments, origins, strict=True))
            names = (skip_identities(graph, output) for output in graph.outputs)
            origins = [numbers.get(name) for name in names]
        return tuple(origins)

    @property
    def saved_transfer_share(self) -> float:
        """Share of the bytes that they make and are not given; 0 where they make no more."""
        made = _size(self.element_spec)
        return max(0.0, 1 - _size(self.input_dataset.element_spec) / made) if made else 0.0

    @property
    def resident_bytes(self) -> int:
        """Of the numbers that they hold, those of gathered rows among them."""
        held = {id(t): t for f in self.functions for t in graph_of(f).captures.values()}
        return sum(_bytes(tensor) for tensor in held.values())

    def to_step_offload(self, vectorized_maps: tuple[int, ...] = ()) -> StepOffload:
        """As a fact.

        Args:
            vectorized_maps: Indices of the maps that are called for whole batches first.
        """
        return StepOffload(
            digest=self.digest,
            saved_transfer_share=self.saved_transfer_share,
            vectorized_maps=vectorized_maps,
            resident_bytes=self.resident_bytes,
        )

    def map_element(self, element: Any) -> Any:
        """What they make of an element of :attr:`input_dataset`, in the function of a map."""
        return self._through(self.functions, element)

    def on_device(self, device: str) -> Callable[[Any], Any]:
        """The same on a device, with all numbers that they hold.

        Args:
            device: In TensorFlow's words; ``""`` for where TensorFlow would run it.
        """
        placed = [_placed(node, device) for node in self.maps]

        def made(given: Any) -> Any:
            with tf.device(device or None):  # the calls as well as what they call
                return self._through(placed, given)

        return made

    def load_rows(self, device: str) -> None:
        """Put the rows that they gather on a device, before a step that does so is run.

        Raises:
            ResourceExhaustedError: TensorFlow's; it has no room for them.
        """
        for node in self.maps:
            _placed(node, device).load_rows()

    def release_rows(self) -> None:
        """Give the memory of the rows back, wherever they were put."""
        for node in self.maps:
            for placed in _all_placed(node).values():
                placed.release_rows()

    def _through(self, functions: Sequence[Callable[..., Any]], given: Any) -> Any:
        flat = tf.nest.flatten(given)
        for function in functions:
            flat = function(*flat)
        return tf.nest.pack_sequence_as(self.element_spec, flat)


def find_trailing_maps(pipeline: Pipeline) -> tuple[TrailingMaps, ...]:
    """The last map of a pipeline, the last two, and on, as far as another device could do them.

    Returns:
        None of them where something else is done behind, or where a map draws, keeps state, runs
        Python, takes or gives anything but plain numbers, or does more than casting, scaling and
        moving.

    Example:
        >>> pixels = tf.data.Dataset.from_tensors(tf.zeros([4, 4], tf.uint8)).batch(2)
        >>> (found,) = find_trailing_maps(
        ...     read_pipeline(pixels.map(lambda x: tf.cast(x, tf.float32)).prefetch(1))
        ... )
        >>> (
        ...     found.input_dataset.element_spec.dtype,
        ...     found.element_spec.dtype,
        ...     found.saved_transfer_share,
        ... )
        (tf.uint8, tf.float32, 0.75)
    """
    chain = pipeline.stages
    top = len(chain) - 1
    while top > 0 and chain[top].kind in _HANDING_ON:
        top -= 1
    found = []
    for at in range(top, 0, -1):
        if chain[at].kind != "map" or not _runs_anywhere(chain[at]):
            break
        below = rebuild_onto(chain[at - 1].dataset, chain[top + 1 :])
        if shuffle_fusion_flags(read_pipeline(below)) != shuffle_fusion_flags(pipeline):
            break  # a shuffle and a repeat that this map keeps apart
        found.append(TrailingMaps(chain[at : top + 1], below))
    return tuple(found)


def find_expected_maps(pipeline: Pipeline, expected_digest: str) -> TrailingMaps:
    """The last maps with the digest that an edit names.

    Args:
        pipeline: The unmodified pipeline.
        expected_digest: Digest of the maps.

    Raises:
        EditRefused: The pipeline does not end with these maps.
    """
    runs = find_trailing_maps(pipeline)
    for run in runs:
        if run.digest == expected_digest:
            return run
    raise EditRefused(
        f"the pipeline ends with {', '.join(run.digest for run in runs) or 'no such map'}",
        f"last maps {expected_digest}, followed only by a prefetch or a repeat",
        "run 'uncork tune' again to create a plan for this pipeline",
    )


def find_step_offload(location: StageLocation) -> StepOffload | None:
    """What the training step could do from a stage on, with fewer bytes to be sent.

    Args:
        location: Of a map; or of the arrays that a pipeline takes its elements from.

    Returns:
        None where it could not.
    """
    whole = location.pipeline.outermost
    if location.pipeline is not whole or location.node.kind not in _BEGINNINGS:
        return None
    chain = whole.stages
    maps = [i for i in range(len(chain) - 1, location.position - 1, -1) if chain[i].kind == "map"]
    stacked = [i for i in maps if any(node.kind in BATCH_KINDS for node in chain[i:])]
    stages = tuple(whole.stage_locations.index(StageLocation(whole, i)) for i in stacked)
    edited, gathered = whole, location.node.kind != "map"
    with suppress(EditRefused):
        for stage in stages:
            edited = apply_edit(edited, VectorizeMap(stage=stage, expected_digest=edited.digest))
        if gathered:
            edited = apply_edit(edited, GatherLast(expected_digest=edited.digest))
        run = find_trailing_maps(edited)[: len(maps) + gathered]
        if len(run) == len(maps) + gathered and run[-1].saved_transfer_share:
            return run[-1].to_step_offload(stages)
    return None


def _placed(node: Node, device: str) -> DeviceFunction:
    """A map's function on a device, made once for all pipelines that have this map."""
    known, function = _all_placed(node), node.functions[0]
    if device not in known or known[device].function is not function:
        known[device] = DeviceFunction(function, device, is_row_gather=node.is_row_gather)
    return known[device]


def _all_placed(node: Node) -> dict[str, DeviceFunction]:
    found: dict[str, DeviceFunction] = node.dataset.__dict__.setdefault(_PLACED, {})
    return found


def _runs_anywhere(node: Node) -> bool:
    """Wherever the training step runs, it can do this map's work, and to the same effect."""
    function = node.functions[0]
    graph = graph_of(function)
    specs = tf.nest.flatten((node.inputs[0].dataset.element_spec, node.dataset.element_spec))
    held = graph.captures.values()
    return (
        is_order_free(function)
        and not graph.effects
        and all(map(_is_plain, specs))
        and all(is_numeric_dtype(outer.dtype) and hasattr(outer, "numpy") for outer in held)
        and (node.is_row_gather or sum(map(_bytes, held)) <= _MOST_HELD)
        and {node.op for node in graph.nodes.values()} <= _ANYWHERE
    )


def _is_plain(spec: Any) -> bool:
    return isinstance(spec, tf.TensorSpec) and is_numeric_dtype(spec.dtype)


def _bytes(tensor: Tensor) -> int:
    return int(tensor.dtype.size * tensor.shape.num_elements())


def _size(structure: Any) -> float:
    """Bytes of an element; dimensions that are not known count as 64."""
    return sum(
        float(spec.dtype.size * math.prod(_UNKNOWN if d is None else d for d in spec.shape))
        if spec.shape.rank is not None
        else math.inf
        for spec in tf.nest.flatten(structure)
    )
