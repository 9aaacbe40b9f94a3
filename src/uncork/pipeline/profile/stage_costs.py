"""What each stage of a pipeline costs.

TensorFlow's own model counts elapsed time of kernels, which grows when threads crowd. Here what a
stage is made from is run serially, with the stage and without it, and timed with the process's CPU
clock; the difference is the cost of the stage.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.record import replace
from uncork.core.evidence.stage import (
    AUTOTUNE,
    INFINITE_LENGTH,
    FileReads,
    InlinedCost,
    MapPrefix,
    OpCost,
    RandomPart,
    RepeatedWork,
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
from uncork.pipeline.analysis.shared_inputs import find_shared_input
from uncork.pipeline.equivalence.seeded_twin import preserve_state
from uncork.pipeline.functions.effects import python_code_at
from uncork.pipeline.functions.file_reads import count_file_reads
from uncork.pipeline.ir.element_order import is_ordered_by_default
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import has_python_code
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.profile.alternatives import (
    add_alternative_probes,
    add_needed_probes,
    find_vectorizable_maps,
    measure_chunked_cost,
)
from uncork.pipeline.profile.cache_points import (
    elements_per_pass,
    find_cache_point,
    measure_shuffle_buffer,
)
from uncork.pipeline.profile.element_ratios import (
    DROPPING_KINDS,
    count_longest_input,
    set_input_ratios,
    static_ratio,
)
from uncork.pipeline.profile.isolated_timing import (
    create_similar_elements,
    isolated_cost,
    time_in_isolation,
)
from uncork.pipeline.profile.memoization_value import measure_memoization
from uncork.pipeline.profile.op_costs import measure_op_costs
from uncork.pipeline.profile.probes import (
    Probe,
    count_elements,
    mean_element_bytes,
    run_serially,
    serial_copy,
    time_round_robin,
)
from uncork.pipeline.profile.stage_measurement import StageMeasurement
from uncork.pipeline.transforms.filter_pushdown import find_bypassable_maps, is_index_based
from uncork.pipeline.transforms.read_ahead import count_sequential_inputs
from uncork.pipeline.transforms.trailing_maps import find_step_offload
from uncork.pipeline.transforms.vectorize import VectorizedMap
from uncork.pycode.frames.value_origin import find_array_origin

# Filling a user's cache or counting records may take this part of the budget.
_PASS_SHARE: Final = 0.5
# Of the pipeline's work; a map that costs less is not looked into.
_TRIFLE: Final = 0.05
# Shorter inputs are not shared out.
_LEAST_INPUT_S: Final = 2e-3
# Joins that give one element of one branch at a time, and do no work of their own.
_PASSING_ON: Final = frozenset({"concatenate", "choose"})


def measure_stage_costs(
    pipeline: Pipeline, *, batch_size: int | None, budget_s: float
) -> tuple[Stage, ...]:
    """Run every stage with all that it is made from for a while, and say what each one costs.

    Costs are those of later epochs: below a cache, ``elements_per_step`` is 0.

    Args:
        pipeline: As the user made it. Shuffles and random generators are not moved on; an
            in-memory cache is filled when a pass is short, and stays filled.
        batch_size: Samples a step, used where a stage's ratio cannot be counted.
        budget_s: Seconds to spend, roughly; slow elements take what three of them take.

    Returns:
        All stages, those of a branch before the one that joins it with others.
    """
    started = time.monotonic()
    with preserve_state(pipeline):
        stages = _stages(pipeline)
        _fill_caches(stages, budget_s * _PASS_SHARE)
        for stage in stages:
            some_s = budget_s / len(stages) / 8
            stage.bytes_per_element = mean_element_bytes(stage.dataset, budget_s=some_s)
        set_input_ratios(stages, batch_size, budget_s / 8)
        left = budget_s - (time.monotonic() - started)
        probes = {id(probe): probe for stage in stages for probe in stage.probes}
        time_round_robin(list(probes.values()), max(left, budget_s / 4))
        _difference(stages)
        time_in_isolation(stages, budget_s / 4)
        _difference(stages)
        _count_inputs(stages, budget_s / 4)
        return tuple(_explained(pipeline, stages, stage, budget_s / 8) for stage in stages)


def _explained(
    whole: Pipeline, stages: Sequence[StageMeasurement], stage: StageMeasurement, budget_s: float
) -> Stage:
    found = _stage(whole, stage)
    if any(earlier.node.dataset is stage.node.dataset for earlier in stages[: stage.index]):
        return found  # several branches read it: whatever is done to it, is done to the first
    asked = (
        measure_memoization(stage, elements_per_pass(stage, budget_s))
        if found.has_python_code
        else None
    )
    if asked is not None:
        found = replace(
            found, memoization=asked.memoization, threaded_wall_s_per_element=asked.threaded_wall_s
        )
    return replace(
        found,
        deterministic_prefix=_before_the_cut(stage, repeats=False),
        narrow_prefix=_before_the_cut(stage, repeats=True),
        random_part=_draws(stage),
        op_costs=_ops(stages, stage, budget_s / 4),
        inlined_cost=_inlined(stage),
        cache_point=find_cache_point(stages, stage.index, budget_s),
        shuffle_buffer=measure_shuffle_buffer(stages, stage.index),
        bypassable_maps=tuple(
            stage.chain_start + i for i in find_bypassable_maps(*stage.location)[0]
        ),
        is_index_based=is_index_based(stage.node),
        repeated_work=_repeated(stages, stage),
        vectorized_cost=_vectorized(stage),
        step_offload=find_step_offload(stage.location),
        chunked_cost=measure_chunked_cost(whole, stage, budget_s),
    )


class _Twins:
    """Serial twins and their probes; what several branches share has one, and is timed once."""

    def __init__(self) -> None:
        self._twins: dict[tuple[int, ...], Dataset] = {}
        self._probes: dict[int, Probe] = {}

    def twin(self, node: Node, below: Sequence[Dataset]) -> Dataset:
        key = (id(node.dataset), *map(id, below))
        if key not in self._twins:
            self._twins[key] = serial_copy(node, below)
        return self._twins[key]

    def probe(self, dataset: Dataset) -> Probe:
        return self._probes.setdefault(id(dataset), Probe(dataset))


def _stages(pipeline: Pipeline) -> list[StageMeasurement]:
    stages: list[StageMeasurement] = []
    twins = _Twins()
    tops: dict[int, StageMeasurement] = {}  # of each branch
    for_batches: dict[int, tuple[Node, VectorizedMap]] = {}
    for index, place in enumerate(pipeline.stage_locations):
        if place.position:
            below: tuple[StageMeasurement, ...] = (stages[-1],)
        else:
            below = tuple(tops[id(branch)] for branch in place.pipeline.branches)
            for_batches = find_vectorizable_maps(place.pipeline)
        dataset = twins.twin(place.node, [b.dataset for b in below])
        stage = StageMeasurement(
            index=index,
            first_index=min((b.first_index for b in below), default=index),
            location=place,
            input_stages=below,
            dataset=dataset,
            probe=twins.probe(dataset),
        )
        if place.node.kind == "map" and below:
            add_alternative_probes(stage, below[0].dataset, for_batches.get(place.position))
        stages.append(stage)
        tops[id(place.pipeline)] = stage
    for stage in stages:
        add_needed_probes(stages, stage)
    return stages


def _fill_caches(stages: Sequence[StageMeasurement], budget_s: float) -> None:
    """See a user's in-memory cache through once, so that what is measured are later epochs."""
    for stage in stages:
        if stage.node.is_memory_cache and stage.is_finite_cache:
            stage.is_filled = (
                count_elements(run_serially(stage.dataset), budget_s=budget_s) is not None
            )


def _count_inputs(stages: Sequence[StageMeasurement], budget_s: float) -> None:
    """Of what goes through one input after the other, and costs something, how long they are.

    Not of brief ones: they are over before another thread is awake.
    """
    whole_s = sum(stage.cpu_s_per_step for stage in stages)
    costly = [
        stage
        for stage in stages
        if stage.cpu_s_per_step > _TRIFLE * whole_s
        and count_sequential_inputs(stage.node) is not None
    ]
    for stage in costly:
        share_s = budget_s / len(costly)
        found = count_longest_input(stage.node, stage.input_stages[0].dataset, share_s)
        lasts_s = (found or 0) * (stage.wall_s or 0.0)
        stage.max_input_elements = found if lasts_s >= _LEAST_INPUT_S else None


def _difference(stages: Sequence[StageMeasurement]) -> None:
    """From costs of all below to costs of stages; noise may not make a stage cost less than 0."""
    for stage in stages:
        if stage.node.kind in _PASSING_ON:
            stage.cpu_s = stage.wall_s = 0.0  # what it gave while it was timed may be of one branch
            continue
        whole, under = stage.probe.medians(), _under(stage)
        if whole is None or under is None:
            continue
        differences = tuple(max(0.0, a - b) for a, b in zip(whole, under, strict=True))
        stage.cpu_s, stage.wall_s = isolated_cost(stage, under[0]) or differences
        stage.prefix_cpu_s = _own(stage.prefix_probe, stage.cpu_s, under[0])
        stage.draw_cpu_s = _own(stage.draw_probe, stage.cpu_s, under[0])
        stage.needed_cpu_s = _own(stage.needed_probe, stage.cpu_s, under[0])
        stage.cropped_cpu_s = _cropped(stage, under[0])
        stage.float32_cpu_s = _own(stage.float32_probe, stage.cpu_s, under[0])
        stage.reading_cpu_s = _own(stage.reading_probe, stage.cpu_s, under[0])


def _own(probe: Probe | None, most: float, under: float) -> float | None:
    """CPU seconds of a part, or of another form, of a map that costs so much."""
    found = probe.medians() if probe else None
    return None if found is None else min(most, max(0.0, found[0] - under))


def _cropped(stage: StageMeasurement, under: float) -> float | None:
    """CPU seconds where no more is decoded than is cropped: of the map, or of both of them."""
    cost_s = stage.cpu_s or 0.0
    if not stage.has_upstream_decoder:
        return _own(stage.cropped_probe, cost_s, under)
    lower = stage.input_stages[0]
    least = _under(lower)
    if least is None or lower.cpu_s is None:
        return None
    return _own(stage.cropped_probe, cost_s + lower.cpu_s, least[0])


def _under(stage: StageMeasurement) -> tuple[float, float] | None:
    """CPU and elapsed seconds of what one element is made from."""
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


def _stage(whole: Pipeline, stage: StageMeasurement) -> Stage:
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
        multithreading_cpu_s_per_element=_spread(stage),
        float32_cpu_s_per_element=stage.float32_cpu_s,
        needed_cpu_s_per_element=stage.needed_cpu_s,
        unused_output_maps=stage.unused_output_maps,
        cropped_cpu_s_per_element=stage.cropped_cpu_s,
        has_upstream_decoder=stage.has_upstream_decoder and stage.cropped_cpu_s is not None,
        float64_at=None if stage.float32_cpu_s is None else _wide_at(stage),
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
        file_reads=_reading(stage),
        has_frozen_randomness=has_frozen_randomness(node),
        has_repeating_randomness=has_repeating_randomness(
            node, is_ordered=is_ordered_by_default(whole)
        ),
        is_opaque=node.kind == "opaque",
    )


def _before_the_cut(stage: StageMeasurement, *, repeats: bool) -> MapPrefix | None:
    """Of a map that repeats itself as a whole, or of another one."""
    if stage.prefix_cpu_s is None or stage.prefix_bytes is None:
        return None
    if stage.map_split is None or stage.map_split.has_deterministic_rest is not repeats:
        return None
    return MapPrefix(
        op_count=stage.map_split.op_count,
        bytes_per_element=stage.prefix_bytes,
        cpu_s_per_element=stage.prefix_cpu_s,
    )


def _draws(stage: StageMeasurement) -> RandomPart | None:
    if stage.random_split is None or stage.draw_cpu_s is None:
        return None
    return RandomPart(
        deterministic_op_count=stage.random_split.deterministic_op_count,
        cpu_s_per_element=stage.draw_cpu_s,
    )


def _inlined(stage: StageMeasurement) -> InlinedCost | None:
    probe, under = stage.inline_probe, _under(stage)
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


def _spread(stage: StageMeasurement) -> float | None:
    """CPU seconds that one call at a time costs more than several; a cost of threads."""
    alone, together = (
        (probe.medians() for probe in stage.parallel_call_probes)
        if stage.parallel_call_probes
        else (None, None)
    )
    return max(0.0, alone[0] - together[0]) if alone and together else None


def _wide_at(stage: StageMeasurement) -> str | None:
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


def _reading(stage: StageMeasurement) -> FileReads | None:
    if stage.reading_cpu_s is None:
        return None
    return FileReads(
        files_per_element=count_file_reads(stage.node.functions[0]),
        cpu_s_per_element=stage.reading_cpu_s,
    )


def _vectorized(stage: StageMeasurement) -> VectorizedCost | None:
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


def _ops(
    stages: Sequence[StageMeasurement], stage: StageMeasurement, budget_s: float
) -> tuple[OpCost, ...]:
    """Of a map that costs something beside the others."""
    all_s = sum(each.cpu_s_per_step for each in stages)
    if (
        stage.node.kind != "map"
        or not stage.input_stages
        or stage.cpu_s_per_step <= _TRIFLE * all_s
    ):
        return ()
    return measure_op_costs(
        stage.node, create_similar_elements(stage.input_stages[0], budget_s), budget_s=budget_s
    )


def _repeated(stages: Sequence[StageMeasurement], joint: StageMeasurement) -> RepeatedWork | None:
    shared = find_shared_input(joint.node)
    if shared is None:
        return None
    made = [
        stage
        for stage in stages[joint.first_index : joint.index]
        if stage.node.dataset is shared.node.dataset
    ]
    again = [index for stage in made[1:] for index in range(stage.first_index, stage.index + 1)]
    return RepeatedWork(
        repetitions=shared.branch_count, duplicate_stages=tuple(again), at=shared.second_reader.at
    )
