"""A stage as rules and predictions see it: its costs with what is known of its place."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from uncork.compat.tfdata.dataset_fields import parameter
from uncork.core.evidence.stage import (
    AUTOTUNE,
    INFINITE_LENGTH,
    FileReads,
    InlinedCost,
    MapPrefix,
    RandomPart,
    Stage,
    VectorizedCost,
)
from uncork.pipeline.analysis.concurrency import (
    configured_prefetched_elements,
    max_interleave_readers,
)
from uncork.pipeline.analysis.input_files import named_file_bytes
from uncork.pipeline.analysis.legality import is_parallel_by_default, is_random
from uncork.pipeline.analysis.randomness import has_frozen_randomness, has_repeating_randomness
from uncork.pipeline.functions.effects import python_code_at
from uncork.pipeline.functions.file_reads import count_file_reads
from uncork.pipeline.ir.element_order import is_ordered_by_default
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import has_python_code
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.profile.cut_lines import find_cut_lines
from uncork.pipeline.profile.element_ratios import (
    DROPPING_KINDS,
    static_ratio,
)
from uncork.pipeline.profile.isolated_timing import (
    isolated_cost,
)
from uncork.pipeline.profile.stage_measurement import StageMeasurement
from uncork.pipeline.transforms.read_ahead import count_sequential_inputs
from uncork.pycode.frames.value_origin import find_array_origin


def create_stage(whole: Pipeline, stage: StageMeasurement) -> Stage:
    """What is known of a stage before its alternatives are priced."""
    node = stage.node
    options = whole.options
    return Stage(
        index=stage.index,
        first_index=stage.first_index,
        kind=node.kind,
        at=node.at,
        name=node.name,
        cpu_s_per_element=stage.cpu_s,
        wall_s_per_element=stage.wall_s,
        multithreading_cpu_s_per_element=_multithreading_cost_s(stage),
        float32_cpu_s_per_element=stage.float32_cpu_s,
        needed_cpu_s_per_element=stage.needed_cpu_s,
        unused_output_maps=stage.unused_output_maps,
        cropped_cpu_s_per_element=stage.cropped_cpu_s,
        has_upstream_decoder=stage.has_upstream_decoder and stage.cropped_cpu_s is not None,
        float64_at=None if stage.float32_cpu_s is None else _float64_origin(stage),
        bytes_per_element=stage.bytes_per_element,
        ratio=static_ratio(node) if stage.input_stages else None,
        elements_per_step=stage.elements_per_step,
        length=length if (length := int(node.dataset.cardinality())) >= INFINITE_LENGTH else None,
        file_bytes=named_file_bytes(node),
        prefetched_elements=configured_prefetched_elements(node),
        max_readers=max_interleave_readers(node)
        or (count_sequential_inputs(node) if stage.max_input_elements else None),
        max_input_elements=stage.max_input_elements,
        parallelism=AUTOTUNE if is_parallel_by_default(node, options) else node.parallelism,
        is_random=is_random(node),
        has_python_code=has_python_code(node),
        python_code_at=next(filter(None, map(python_code_at, node.functions)), None),
        is_file_cache=node.is_complete_file_cache,
        file_reads=_file_reads(stage),
        has_frozen_randomness=has_frozen_randomness(node),
        has_repeating_randomness=has_repeating_randomness(
            node, is_ordered=is_ordered_by_default(whole)
        ),
        is_opaque=node.kind == "opaque",
    )


def map_prefix(stage: StageMeasurement, *, repeats: bool) -> MapPrefix | None:
    """The deterministic beginning of a map.

    Args:
        stage: The map, as measured.
        repeats: Asks for a map whose rest is deterministic, too; otherwise for a random one.
    """
    if stage.prefix_cpu_s is None or stage.prefix_bytes is None:
        return None
    if stage.map_split is None or stage.map_split.has_deterministic_rest is not repeats:
        return None
    last_at, rest_at = find_cut_lines(stage.node, stage.map_split)
    return MapPrefix(
        op_count=stage.map_split.op_count,
        bytes_per_element=stage.prefix_bytes,
        cpu_s_per_element=stage.prefix_cpu_s,
        last_at=last_at,
        rest_at=rest_at,
    )


def random_part(stage: StageMeasurement) -> RandomPart | None:
    """What of a map is random, where it can be cut in two; None elsewhere."""
    if stage.random_split is None or stage.draw_cpu_s is None:
        return None
    return RandomPart(
        deterministic_op_count=stage.random_split.deterministic_op_count,
        cpu_s_per_element=stage.draw_cpu_s,
    )


def inlined_cost(stage: StageMeasurement) -> InlinedCost | None:
    """Of a map whose elements are made in the thread that asks for them."""
    probe, under = stage.inline_probe, input_cost(stage)
    if (
        stage.isolated_probe
        and stage.isolated_inline_probe
        and under
        and isolated_cost(stage, under[0])
    ):
        probe, under = stage.isolated_inline_probe, stage.isolated_probe.input_probe.medians()
    found = probe.medians() if probe else None
    if found is None or under is None or stage.cpu_s is None or stage.wall_s is None:
        return None
    cpu_s, wall_s = (max(0.0, a - b) for a, b in zip(found, under, strict=True))
    return InlinedCost(
        cpu_s_per_element=min(stage.cpu_s, cpu_s), wall_s_per_element=min(stage.wall_s, wall_s)
    )


def vectorized_cost(stage: StageMeasurement) -> VectorizedCost | None:
    """Of a map that runs on batches, from its probe."""
    cost = stage.vectorized_probe.medians() if stage.vectorized_probe else None
    if stage.vectorized_probe is None or cost is None:
        return None
    return VectorizedCost(
        batch_size=stage.vectorized_probe.batch_size,
        cpu_s_per_element=cost[0],
        wall_s_per_element=cost[1],
        unbatched_bytes=stage.vectorized_probe.unbatched_bytes,
        unbatched_ops=stage.vectorized_probe.unbatched_ops,
    )


def input_cost(stage: StageMeasurement) -> tuple[float, float] | None:
    """CPU and elapsed seconds of the elements that one element is made from."""
    cpu_s = wall_s = 0.0
    if stage.is_full_cache:
        return cpu_s, wall_s
    for below, inputs in zip(stage.input_stages, stage.input_ratios, strict=True):
        each = below.probe.medians()
        if each is None:
            return None
        if inputs is None and stage.node.kind in DROPPING_KINDS:
            return None  # then all that it is made from would be its own
        cpu_s += (inputs or 0.0) * each[0]
        wall_s += (inputs or 0.0) * each[1]
    return cpu_s, wall_s


def _multithreading_cost_s(stage: StageMeasurement) -> float | None:
    """CPU seconds that one call at a time costs more than several; a cost of threads."""
    alone, together = (
        (probe.medians() for probe in stage.parallel_call_probes)
        if stage.parallel_call_probes
        else (None, None)
    )
    return max(0.0, alone[0] - together[0]) if alone and together else None


def _float64_origin(stage: StageMeasurement) -> str | None:
    """Where the script made the float64 numbers that a map is given, from a tensor in memory."""
    given = tf.nest.flatten(stage.input_stages[0].node.dataset.element_spec)
    if tf.float64 not in [getattr(spec, "dtype", None) for spec in given]:
        return None  # it makes them itself
    wide = [
        tensor
        for source in _sources(stage)
        for tensor in parameter(source.dataset, "tensors", ())
        if tensor.dtype == tf.float64
    ]
    return (
        find_array_origin(max(wide, key=lambda tensor: tensor.shape.num_elements()))
        if wide
        else None
    )


def _sources(stage: StageMeasurement) -> Iterator[Node]:
    if not stage.input_stages:
        yield stage.node
    for below in stage.input_stages:
        yield from _sources(below)


def _file_reads(stage: StageMeasurement) -> FileReads | None:
    if stage.reading_cpu_s is None:
        return None
    return FileReads(
        files_per_element=count_file_reads(stage.node.functions[0]),
        cpu_s_per_element=stage.reading_cpu_s,
    )
