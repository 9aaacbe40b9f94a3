"""The last maps of a pipeline, as something that can as well be done to what has arrived elsewhere.

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
from uncork.core.evidence.stage import InStep
from uncork.pipeline.analysis.graph_rewrites import fused_shuffles
from uncork.pipeline.analysis.legality import BATCHING
from uncork.pipeline.functions.device_copy import OnDevice
from uncork.pipeline.functions.effects import is_order_free
from uncork.pipeline.functions.function_graph import ConcreteFunction, Tensor, graph_of
from uncork.pipeline.functions.splitting import CHEAP
from uncork.pipeline.ir.digest import node_functions_digest
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, Place, read
from uncork.pipeline.transforms.apply import apply, onto
from uncork.pipeline.transforms.late_gather import behind_identities, is_number

# Stages that hand on what they are given, one by one, whatever it is.
_HANDING_ON: Final = frozenset({"prefetch", "options", "assert_cardinality", "repeat"})
# Beside cheap work: what moves values about, and what the vectoriser of maps asks of shapes. Every
# device has kernels for these, and XLA compiles them.
_ANYWHERE: Final = CHEAP | {
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
class LastMaps:
    """Maps that nothing but handing on is done behind.

    Attributes:
        maps: One above the other, the lowest first.
        below: The pipeline without them.
    """

    maps: tuple[Node, ...]
    below: Dataset

    @property
    def functions(self) -> tuple[ConcreteFunction, ...]:
        """Of flat tensors, in the order of the maps."""
        return tuple(node.functions[0] for node in self.maps)

    @property
    def structure(self) -> Any:
        """Of the elements that they give."""
        return self.maps[-1].dataset.element_spec

    @property
    def digest(self) -> str:
        """Equal for maps that do the same; of gathered rows, whatever these hold."""
        return digest(*(each for node in self.maps for each in node_functions_digest(node)))

    @property
    def handed_on(self) -> tuple[int | None, ...]:
        """Of each flat tensor that they give, which of those given it is; None for what is made."""
        origins: Sequence[int | None] = range(len(tf.nest.flatten(self.below.element_spec)))
        for function in self.functions:
            graph = graph_of(function)
            numbers = dict(zip(graph.arguments, origins, strict=True))
            names = (behind_identities(graph, output) for output in graph.outputs)
            origins = [numbers.get(name) for name in names]
        return tuple(origins)

    @property
    def spared(self) -> float:
        """Share of the bytes that they make and are not given; 0 where they make no more."""
        made = _size(self.structure)
        return max(0.0, 1 - _size(self.below.element_spec) / made) if made else 0.0

    @property
    def held_bytes(self) -> int:
        """Of the numbers that they hold, those of gathered rows among them."""
        held = {id(t): t for f in self.functions for t in graph_of(f).captures.values()}
        return sum(_bytes(tensor) for tensor in held.values())

    def in_step(self, vectorized: tuple[int, ...] = ()) -> InStep:
        """As a fact.

        Args:
            vectorized: Indices of the maps that are called for whole batches first.
        """
        return InStep(
            digest=self.digest,
            spared=self.spared,
            vectorized=vectorized,
            held_bytes=self.held_bytes,
        )

    def made(self, given: Any) -> Any:
        """What they make of an element of :attr:`below`, in the function of a map."""
        return self._through(self.functions, given)

    def on(self, device: str) -> Callable[[Any], Any]:
        """The same on a device, with all numbers that they hold.

        Args:
            device: In TensorFlow's words; ``""`` for where TensorFlow would run it.
        """
        placed = [_placed(node, device) for node in self.maps]

        def made(given: Any) -> Any:
            with tf.device(device or None):  # the calls as well as what they call
                return self._through(placed, given)

        return made

    def fill(self, device: str) -> None:
        """Put the rows that they gather on a device, before a step that does so is run.

        Raises:
            ResourceExhaustedError: TensorFlow's; it has no room for them.
        """
        for node in self.maps:
            _placed(node, device).fill()

    def let_go(self) -> None:
        """Give the memory of the rows back, wherever they were put."""
        for node in self.maps:
            for placed in _all_placed(node).values():
                placed.let_go()

    def _through(self, functions: Sequence[Callable[..., Any]], given: Any) -> Any:
        flat = tf.nest.flatten(given)
        for function in functions:
            flat = function(*flat)
        return tf.nest.pack_sequence_as(self.structure, flat)


def last_maps(pipeline: Pipeline) -> tuple[LastMaps, ...]:
    """The last map of a pipeline, the last two, and on, as far as another device could do them.

    Returns:
        None of them where something else is done behind, or where a map draws, keeps state, runs
        Python, takes or gives anything but plain numbers, or does more than casting, scaling and
        moving.

    Example:
        >>> pixels = tf.data.Dataset.from_tensors(tf.zeros([4, 4], tf.uint8)).batch(2)
        >>> found, = last_maps(read(pixels.map(lambda x: tf.cast(x, tf.float32)).prefetch(1)))
        >>> found.below.element_spec.dtype, found.structure.dtype, found.spared
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
        below = onto(chain[at - 1].dataset, chain[top + 1 :])
        if fused_shuffles(read(below)) != fused_shuffles(pipeline):
            break  # a shuffle and a repeat that this map keeps apart
        found.append(LastMaps(chain[at : top + 1], below))
    return tuple(found)


def named_maps(pipeline: Pipeline, expects: str) -> LastMaps:
    """Those of the last maps that an edit means.

    Args:
        pipeline: As it is.
        expects: Digest of what they do.

    Raises:
        EditRefused: It does not end with them.
    """
    runs = last_maps(pipeline)
    for run in runs:
        if run.digest == expects:
            return run
    raise EditRefused(
        f"the pipeline ends with {', '.join(run.digest for run in runs) or 'no such map'}",
        f"last maps {expects}, with nothing but a prefetch or a repeat behind them",
        "run 'uncork tune' again to make a plan for this pipeline",
    )


def in_step(place: Place) -> InStep | None:
    """What the training step could do from a stage on, with fewer bytes to be sent.

    Args:
        place: Of a map; or of the arrays that a pipeline takes its elements from.

    Returns:
        None where it could not.
    """
    whole = place.pipeline.outermost
    if place.pipeline is not whole or place.node.kind not in _BEGINNINGS:
        return None
    chain = whole.stages
    maps = [i for i in range(len(chain) - 1, place.position - 1, -1) if chain[i].kind == "map"]
    stacked = [i for i in maps if any(node.kind in BATCHING for node in chain[i:])]
    stages = tuple(whole.places.index(Place(whole, i)) for i in stacked)
    edited, gathered = whole, place.node.kind != "map"
    with suppress(EditRefused):
        for stage in stages:
            edited = apply(edited, VectorizeMap(stage=stage, expects=edited.digest))
        if gathered:
            edited = apply(edited, GatherLast(expects=edited.digest))
        run = last_maps(edited)[: len(maps) + gathered]
        if len(run) == len(maps) + gathered and run[-1].spared:
            return run[-1].in_step(stages)
    return None


def _placed(node: Node, device: str) -> OnDevice:
    """A map's function on a device, made once for all pipelines that have this map."""
    known, function = _all_placed(node), node.functions[0]
    if device not in known or known[device].function is not function:
        known[device] = OnDevice(function, device, gathers=node.gathers)
    return known[device]


def _all_placed(node: Node) -> dict[str, OnDevice]:
    found: dict[str, OnDevice] = node.dataset.__dict__.setdefault(_PLACED, {})
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
        and all(is_number(outer.dtype) and hasattr(outer, "numpy") for outer in held)
        and (node.gathers or sum(map(_bytes, held)) <= _MOST_HELD)
        and {node.op for node in graph.nodes.values()} <= _ANYWHERE
    )


def _is_plain(spec: Any) -> bool:
    return isinstance(spec, tf.TensorSpec) and is_number(spec.dtype)


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
