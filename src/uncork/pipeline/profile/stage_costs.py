"""What each stage of a pipeline costs.

TensorFlow's own model counts elapsed time of kernels, which grows when threads crowd. Here what a
stage is made from is run serially, with the stage and without it, and timed with the process's CPU
clock; the difference is the cost of the stage.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.record import replace
from uncork.core.evidence.stage import (
    OpCost,
    RepeatedWork,
    Stage,
)
from uncork.pipeline.analysis.shared_inputs import find_shared_input
from uncork.pipeline.equivalence.seeded_twin import preserve_state
from uncork.pipeline.ir.node import Node
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
    count_longest_input,
    set_input_ratios,
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
from uncork.pipeline.profile.stage_record import (
    create_stage,
    inlined_cost,
    input_cost,
    map_prefix,
    random_part,
    vectorized_cost,
)
from uncork.pipeline.transforms.filter_pushdown import find_bypassable_maps, is_index_based
from uncork.pipeline.transforms.read_ahead import count_sequential_inputs
from uncork.pipeline.transforms.trailing_maps import find_step_offload
from uncork.pipeline.transforms.vectorize import VectorizedMap

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
    found = create_stage(whole, stage)
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
        deterministic_prefix=map_prefix(stage, repeats=False),
        narrow_prefix=map_prefix(stage, repeats=True),
        random_part=random_part(stage),
        op_costs=_ops(stages, stage, budget_s / 4),
        inlined_cost=inlined_cost(stage),
        cache_point=find_cache_point(stages, stage.index, budget_s),
        shuffle_buffer=measure_shuffle_buffer(stages, stage.index),
        bypassable_maps=tuple(
            stage.chain_start + i for i in find_bypassable_maps(*stage.location)[0]
        ),
        is_index_based=is_index_based(stage.node),
        repeated_work=_repeated(stages, stage),
        vectorized_cost=vectorized_cost(stage),
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
        whole, under = stage.probe.medians(), input_cost(stage)
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
    least = input_cost(lower)
    if least is None or lower.cpu_s is None:
        return None
    return _own(stage.cropped_probe, cost_s + lower.cpu_s, least[0])


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
