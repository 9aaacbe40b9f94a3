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

from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.structured_function import derive_map_function
from uncork.core.base.errors import EditRefused
from uncork.core.evidence.stage import ChunkedCost
from uncork.measure.machine.probe import available_memory_bytes, usable_cpus
from uncork.pipeline.analysis.legality import can_run_inline, find_downstream_batch, is_synchronous
from uncork.pipeline.functions.draw_split import split_off_draws
from uncork.pipeline.functions.file_reads import extract_file_reads
from uncork.pipeline.functions.float32_variant import convert_to_float32
from uncork.pipeline.functions.splitting import split_deterministic_prefix, split_narrow_prefix
from uncork.pipeline.ir.builders import inline_map, parallel_map, serial_map
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.parallel_calls import spec_bytes
from uncork.pipeline.ir.python_functions import has_python_code
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.profile.probes import (
    Probe,
    mean_element_bytes,
    run_on_all_cores,
    time_round_robin,
)
from uncork.pipeline.profile.stage_measurement import StageMeasurement, VectorizedProbe
from uncork.pipeline.transforms.dead_outputs import find_unused_outputs
from uncork.pipeline.transforms.generator_chunks import (
    MAX_CHUNK_BYTES,
    create_chunked_generator,
    is_read_to_end,
)
from uncork.pipeline.transforms.partial_decode import find_partial_decode
from uncork.pipeline.transforms.stage_edits import create_draw_map, create_prefix_map
from uncork.pipeline.transforms.vectorize import VectorizedMap, rebuild_batch, vectorize_map
from uncork.pipeline.transforms.vectorize import batch_size_of as size_of

# Elements of a chunk at most, and bytes: of larger ones the call is the least part.
_MOST: Final = 1024
# Elapsed seconds of an element. One that takes longer would hardly be handed over sooner.
_BRIEF_S: Final = 0.002


def measure_chunked_cost(
    pipeline: Pipeline, stage: StageMeasurement, budget_s: float
) -> ChunkedCost | None:
    """What an element costs if several are handed over at once; None where they cannot, or long.

    A generator may look at what the training has come to. So it is run no further ahead than by
    one step.

    Args:
        pipeline: The whole of it.
        stage: Timed already.
        budget_s: Seconds to spend, roughly.
    """
    place, size = stage.location, stage.bytes_per_element or MAX_CHUNK_BYTES
    if place.node.kind != "from_generator" or stage.wall_s is None or stage.wall_s > _BRIEF_S:
        return None
    elements = int(min(_MOST, MAX_CHUNK_BYTES // size, stage.elements_per_step or 0))
    if elements < 2 or not is_read_to_end(pipeline, place):
        return None
    made = create_chunked_generator(place.node, elements)
    if made is None:
        return None
    plain, instead = Probe(place.node.dataset), Probe(made)
    time_round_robin([plain, instead], budget_s)
    before, after = plain.medians(), instead.medians()
    if before is None or after is None:
        return None
    return ChunkedCost(
        max_elements=elements,
        cpu_s_per_element=min(before[0], after[0]),
        wall_s_per_element=min(before[1], after[1]),
    )


# Of the memory that is there, what batches in the making may take.
_MEMORY_SHARE: Final = 0.25


def add_alternative_probes(
    stage: StageMeasurement,
    input_dataset: Dataset,
    batch_and_map: tuple[Node, VectorizedMap] | None,
) -> None:
    """What else of a map is timed: its parts, and what it would be elsewhere."""
    node, dataset = stage.node, stage.dataset
    ahead = not is_synchronous(node)
    stage.map_split = (
        (split_deterministic_prefix(node.functions[0]) or split_narrow_prefix(node.functions[0]))
        if ahead
        else None
    )
    if stage.map_split is not None:
        half = create_prefix_map(node, stage.map_split)
        half = serial_map(input_dataset, parameter(half, "map_func"), half)
        stage.prefix_probe = Probe(half)
        stage.prefix_bytes = mean_element_bytes(half)
    stage.random_split = (
        split_off_draws(node.functions[0]) if ahead and node.parallelism == 1 else None
    )
    if stage.random_split is not None:
        stage.draw_probe = Probe(create_draw_map(node, stage.random_split, input_dataset))
    if node.parallelism == 1 and not has_python_code(node):
        together = parallel_map(
            input_dataset,
            parameter(dataset, "map_func"),
            dataset,
            num_parallel_calls=math.ceil(usable_cpus()),
        )
        stage.parallel_call_probes = (
            Probe(dataset, run_on_all_cores),
            Probe(together, run_on_all_cores),
        )
    if can_run_inline(node):
        stage.inline_probe = Probe(
            inline_map(input_dataset, parameter(dataset, "map_func"), dataset)
        )
    part = find_partial_decode(node)
    if part is not None:
        stage.has_upstream_decoder = part.map_count > 1
        given = (
            stage.input_stages[0].input_stages[0].dataset
            if stage.has_upstream_decoder
            else input_dataset
        )
        stage.cropped_probe = Probe(serial_map(given, part.function, dataset))
    single = convert_to_float32(node.functions[0])
    if single is not None:
        function = derive_map_function(parameter(dataset, "map_func"), single)
        stage.float32_probe = Probe(serial_map(input_dataset, function, dataset))
    reading = extract_file_reads(node.functions[0])
    if reading is not None:
        function = derive_map_function(
            parameter(dataset, "map_func"), reading, tf.TensorSpec([], tf.int32)
        )
        stage.reading_probe = Probe(serial_map(input_dataset, function, dataset))
    if batch_and_map is not None:
        batch, stacked = batch_and_map
        first = (
            serial_map(input_dataset, stacked.unbatched_function, node.dataset)
            if stacked.unbatched_function
            else input_dataset
        )
        made = serial_map(rebuild_batch(first, batch), stacked.function, node.dataset)
        stage.vectorized_probe = VectorizedProbe(
            size_of(batch),
            Probe(rebuild_batch(input_dataset, batch)),
            Probe(made),
            unbatched_bytes=mean_element_bytes(first) if stacked.unbatched_function else None,
            unbatched_ops=stacked.unbatched_ops,
        )


def find_vectorizable_maps(pipeline: Pipeline) -> dict[int, tuple[Node, VectorizedMap]]:
    """Maps that can be moved above a batch, highest first, with that batch and what they become."""
    found: dict[int, tuple[Node, VectorizedMap]] = {}
    for position in reversed(range(1, len(pipeline.stages))):
        # One of which a part stays keeps those below it there.
        moved = [i for i, (_, stacked) in found.items() if stacked.unbatched_function is None]
        try:
            batch = pipeline.stages[find_downstream_batch(pipeline, position, moved_maps=moved)]
        except EditRefused:
            continue
        stacked = vectorize_map(pipeline.stages[position], batch)
        if stacked is not None and _has_room(pipeline.stages[position], stacked, batch):
            found[position] = batch, stacked
    return found


def _has_room(node: Node, stacked: VectorizedMap, batch: Node) -> bool:
    """For some batches of what the map is given, which may be far more than it makes of them.

    Words, whose size no spec tells, have.
    """
    first = stacked.unbatched_function
    taken = node.inputs[0].dataset.element_spec if first is None else first.output_structure
    each = spec_bytes(taken) or 0
    return (
        size_of(batch) * each * (math.ceil(usable_cpus()) + 1)
        <= _MEMORY_SHARE * available_memory_bytes()
    )


def add_needed_probes(stages: Sequence[StageMeasurement], stage: StageMeasurement) -> None:
    """Time the maps that make what this one ignores without that.

    Args:
        stages: All of them.
        stage: Any.
    """
    makers = find_unused_outputs(*stage.location)
    stage.unused_output_maps = tuple(stage.chain_start + position for position in makers)
    for index, function in zip(stage.unused_output_maps, makers.values(), strict=True):
        maker = stages[index]
        trimmed = serial_map(maker.input_stages[0].dataset, function, maker.dataset)
        maker.needed_probe = Probe(trimmed)
