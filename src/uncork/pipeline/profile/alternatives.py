"""A generator behind ``from_generator`` whose elements are handed over several at once.

Each element that TensorFlow asks a Python generator for costs a call from its threads into the
interpreter, some 100 us. A call that gives many costs little more.

What else of a map is timed beside it: its parts, and what it would be in another place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.errors import EditRefused
from uncork.core.evidence.stage import Chunked
from uncork.measure.machine.probe import available_memory, cpus
from uncork.pipeline.analysis.legality import batch_above, is_synchronous, may_run_inline
from uncork.pipeline.functions.draw_split import drawn_first
from uncork.pipeline.functions.file_reads import only_reading
from uncork.pipeline.functions.float32_variant import narrowed
from uncork.pipeline.functions.splitting import narrow, split
from uncork.pipeline.ir.builders import derived, inline_map, parallel_map, serial_map
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.parallel_calls import spec_bytes
from uncork.pipeline.ir.python_functions import in_python
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.profile.probes import Probe, bytes_of, on_all_cores, take_turns
from uncork.pipeline.profile.stage_measurement import AtOnce, Measured
from uncork.pipeline.transforms.dead_outputs import unused
from uncork.pipeline.transforms.generator_chunks import _MOST_BYTES, _read_on, in_chunks
from uncork.pipeline.transforms.partial_decode import part_decoded
from uncork.pipeline.transforms.stage_edits import drawing_half, first_half
from uncork.pipeline.transforms.vectorize import Stacked, batched, vectorized
from uncork.pipeline.transforms.vectorize import batch_size as size_of

# Elements of a chunk at most, and bytes: of larger ones the call is the least part.
_MOST: Final = 1024
# Elapsed seconds of an element. One that takes longer would hardly be handed over sooner.
_BRIEF_S: Final = 0.002


def chunked(pipeline: Pipeline, stage: Measured, budget_s: float) -> Chunked | None:
    """What an element costs if several are handed over at once; None where they cannot, or long.

    A generator may look at what the training has come to. So it is run no further ahead than by
    one step.

    Args:
        pipeline: The whole of it.
        stage: Timed already.
        budget_s: Seconds to spend, roughly.
    """
    place, size = stage.place, stage.bytes or _MOST_BYTES
    if place.node.kind != "from_generator" or stage.wall_s is None or stage.wall_s > _BRIEF_S:
        return None
    elements = int(min(_MOST, _MOST_BYTES // size, stage.per_step or 0))
    if elements < 2 or not _read_on(pipeline, place):
        return None
    made = in_chunks(place.node, elements)
    if made is None:
        return None
    plain, instead = Probe(place.node.dataset), Probe(made)
    take_turns([plain, instead], budget_s)
    before, after = plain.medians(), instead.medians()
    if before is None or after is None:
        return None
    return Chunked(
        elements=elements,
        cpu_s_per_element=min(before[0], after[0]),
        wall_s_per_element=min(before[1], after[1]),
    )


# Of the memory that is there, what batches in the making may take.
_MEMORY_SHARE: Final = 0.25


def time_otherwise(stage: Measured, below: Dataset, for_batch: tuple[Node, Stacked] | None) -> None:
    """What else of a map is timed: its parts, and what it would be elsewhere."""
    node, dataset = stage.node, stage.dataset
    ahead = not is_synchronous(node)
    stage.cut = (split(node.functions[0]) or narrow(node.functions[0])) if ahead else None
    if stage.cut is not None:
        half = first_half(node, stage.cut)
        half = serial_map(below, half._map_func, half)
        stage.prefix_probe = Probe(half)
        stage.prefix_bytes = bytes_of(half)
    stage.drawn = drawn_first(node.functions[0]) if ahead and node.parallelism == 1 else None
    if stage.drawn is not None:
        stage.draw_probe = Probe(drawing_half(node, stage.drawn, below))
    if node.parallelism == 1 and not in_python(node):
        together = parallel_map(below, dataset._map_func, dataset, calls=math.ceil(cpus()))
        stage.calls = Probe(dataset, on_all_cores), Probe(together, on_all_cores)
    if may_run_inline(node):
        stage.inline_probe = Probe(inline_map(below, dataset._map_func, dataset))
    part = part_decoded(node)
    if part is not None:
        stage.crops_below = part.maps > 1
        given = stage.below[0].below[0].dataset if stage.crops_below else below
        stage.cropped_probe = Probe(serial_map(given, part.function, dataset))
    single = narrowed(node.functions[0])
    if single is not None:
        function = derived(dataset._map_func, single)
        stage.single_probe = Probe(serial_map(below, function, dataset))
    reading = only_reading(node.functions[0])
    if reading is not None:
        function = derived(dataset._map_func, reading, tf.TensorSpec([], tf.int32))
        stage.reading_probe = Probe(serial_map(below, function, dataset))
    if for_batch is not None:
        batch, stacked = for_batch
        first = serial_map(below, stacked.first, node.dataset) if stacked.first else below
        made = serial_map(batched(first, batch), stacked.function, node.dataset)
        stage.at_once = AtOnce(
            size_of(batch),
            Probe(batched(below, batch)),
            Probe(made),
            first_bytes=bytes_of(first) if stacked.first else None,
            behind=stacked.behind,
        )


def for_whole_batches(pipeline: Pipeline) -> dict[int, tuple[Node, Stacked]]:
    """Maps that can be moved above a batch, highest first, with that batch and what they become."""
    found: dict[int, tuple[Node, Stacked]] = {}
    for position in reversed(range(1, len(pipeline.stages))):
        # One of which a part stays keeps those below it there.
        moved = [i for i, (_, stacked) in found.items() if stacked.first is None]
        try:
            batch = pipeline.stages[batch_above(pipeline, position, moved=moved)]
        except EditRefused:
            continue
        stacked = vectorized(pipeline.stages[position], batch)
        if stacked is not None and _has_room(pipeline.stages[position], stacked, batch):
            found[position] = batch, stacked
    return found


def _has_room(node: Node, stacked: Stacked, batch: Node) -> bool:
    """For some batches of what the map is given, which may be far more than it makes of them.

    Words, whose size no spec tells, have.
    """
    first = stacked.first
    taken = node.inputs[0].dataset.element_spec if first is None else first.output_structure
    each = spec_bytes(taken) or 0
    return size_of(batch) * each * (math.ceil(cpus()) + 1) <= _MEMORY_SHARE * available_memory()


def time_what_is_needed(stages: Sequence[Measured], stage: Measured) -> None:
    """Time the maps that make what this one ignores without that.

    Args:
        stages: All of them.
        stage: Any.
    """
    makers = unused(*stage.place)
    stage.ignores = tuple(stage.lowest + position for position in makers)
    for index, function in zip(stage.ignores, makers.values(), strict=True):
        maker = stages[index]
        trimmed = serial_map(maker.below[0].dataset, function, maker.dataset)
        maker.needed_probe = Probe(trimmed)
