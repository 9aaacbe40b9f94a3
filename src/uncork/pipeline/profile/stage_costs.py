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

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.record import replace
from uncork.core.evidence.stage import (
    AUTOTUNE,
    ENDLESS,
    Draws,
    Inlined,
    OpCost,
    Prefix,
    Reading,
    Repeated,
    Stage,
    Vectorized,
)
from uncork.pipeline.analysis.concurrency import readers, told_ahead
from uncork.pipeline.analysis.input_files import bytes_named
from uncork.pipeline.analysis.legality import is_random, parallel_by_default
from uncork.pipeline.analysis.randomness import draws_alike, freezes_draws
from uncork.pipeline.analysis.shared_inputs import shared_by_branches
from uncork.pipeline.equivalence.seeded_twin import state_kept
from uncork.pipeline.functions.effects import python_at
from uncork.pipeline.functions.file_reads import files_read
from uncork.pipeline.ir.element_order import ordered_by_default
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import in_python
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.profile.alternatives import (
    chunked,
    for_whole_batches,
    time_otherwise,
    time_what_is_needed,
)
from uncork.pipeline.profile.cache_points import buffer, cache_point, elements_of
from uncork.pipeline.profile.element_ratios import (
    DROPPING,
    count_ratios,
    elements_of_one,
    static_ratio,
)
from uncork.pipeline.profile.isolated_timing import alone, elements_like, time_alone
from uncork.pipeline.profile.memoization_value import asked_of
from uncork.pipeline.profile.op_costs import op_costs
from uncork.pipeline.profile.probes import Probe, bytes_of, count, serial_twin, serially, take_turns
from uncork.pipeline.profile.stage_measurement import Measured
from uncork.pipeline.transforms.filter_pushdown import filtered_first, goes_by_number
from uncork.pipeline.transforms.read_ahead import in_turn
from uncork.pipeline.transforms.trailing_maps import in_step
from uncork.pipeline.transforms.vectorize import Stacked
from uncork.pycode.frames.value_origin import origin

# Filling a user's cache or counting records may take this part of the budget.
_PASS_SHARE: Final = 0.5
# Of the pipeline's work; a map that costs less is not looked into.
_TRIFLE: Final = 0.05
# Shorter inputs are not shared out.
_LEAST_INPUT_S: Final = 2e-3
# Joins that give one element of one branch at a time, and do no work of their own.
_PASSING_ON: Final = frozenset({"concatenate", "choose"})


def measure(pipeline: Pipeline, *, batch_size: int | None, budget_s: float) -> tuple[Stage, ...]:
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
    with state_kept(pipeline):
        stages = _stages(pipeline)
        _fill_caches(stages, budget_s * _PASS_SHARE)
        for stage in stages:
            some_s = budget_s / len(stages) / 8
            stage.bytes = bytes_of(stage.dataset, budget_s=some_s)
        count_ratios(stages, batch_size, budget_s / 8)
        left = budget_s - (time.monotonic() - started)
        probes = {id(probe): probe for stage in stages for probe in stage.probes}
        take_turns(list(probes.values()), max(left, budget_s / 4))
        _difference(stages)
        time_alone(stages, budget_s / 4)
        _difference(stages)
        _count_inputs(stages, budget_s / 4)
        return tuple(_explained(pipeline, stages, stage, budget_s / 8) for stage in stages)


def _explained(
    whole: Pipeline, stages: Sequence[Measured], stage: Measured, budget_s: float
) -> Stage:
    found = _stage(whole, stage)
    if any(earlier.node.dataset is stage.node.dataset for earlier in stages[: stage.index]):
        return found  # several branches read it: whatever is done to it, is done to the first
    asked = asked_of(stage, elements_of(stage, budget_s)) if found.python else None
    if asked is not None:
        found = replace(
            found, keepable=asked.keepable, threads_wall_s_per_element=asked.threads_wall_s
        )
    return replace(
        found,
        prefix=_before_the_cut(stage, repeats=False),
        narrow=_before_the_cut(stage, repeats=True),
        draws=_draws(stage),
        ops=_ops(stages, stage, budget_s / 4),
        inlined=_inlined(stage),
        cache_point=cache_point(stages, stage.index, budget_s),
        buffer=buffer(stages, stage.index),
        may_precede=tuple(stage.lowest + i for i in filtered_first(*stage.place)[0]),
        by_number=goes_by_number(stage.node),
        repeated=_repeated(stages, stage),
        vectorized=_vectorized(stage),
        in_step=in_step(stage.place),
        chunked=chunked(whole, stage, budget_s),
    )


class _Twins:
    """Serial twins and their probes; what several branches share has one, and is timed once."""

    def __init__(self) -> None:
        self._twins: dict[tuple[int, ...], Dataset] = {}
        self._probes: dict[int, Probe] = {}

    def twin(self, node: Node, below: Sequence[Dataset]) -> Dataset:
        key = (id(node.dataset), *map(id, below))
        if key not in self._twins:
            self._twins[key] = serial_twin(node, below)
        return self._twins[key]

    def probe(self, dataset: Dataset) -> Probe:
        return self._probes.setdefault(id(dataset), Probe(dataset))


def _stages(pipeline: Pipeline) -> list[Measured]:
    stages: list[Measured] = []
    twins = _Twins()
    tops: dict[int, Measured] = {}  # of each branch
    for_batches: dict[int, tuple[Node, Stacked]] = {}
    for index, place in enumerate(pipeline.places):
        if place.position:
            below: tuple[Measured, ...] = (stages[-1],)
        else:
            below = tuple(tops[id(branch)] for branch in place.pipeline.branches)
            for_batches = for_whole_batches(place.pipeline)
        dataset = twins.twin(place.node, [b.dataset for b in below])
        stage = Measured(
            index=index,
            first=min((b.first for b in below), default=index),
            place=place,
            below=below,
            dataset=dataset,
            probe=twins.probe(dataset),
        )
        if place.node.kind == "map" and below:
            time_otherwise(stage, below[0].dataset, for_batches.get(place.position))
        stages.append(stage)
        tops[id(place.pipeline)] = stage
    for stage in stages:
        time_what_is_needed(stages, stage)
    return stages


def _fill_caches(stages: Sequence[Measured], budget_s: float) -> None:
    """See a user's in-memory cache through once, so that what is measured are later epochs."""
    for stage in stages:
        if stage.node.in_memory and stage.spares:
            stage.filled = count(serially(stage.dataset), budget_s=budget_s) is not None


def _count_inputs(stages: Sequence[Measured], budget_s: float) -> None:
    """Of what goes through one input after the other, and costs something, how long they are.

    Not of brief ones: they are over before another thread is awake.
    """
    whole_s = sum(stage.cpu_s_per_step for stage in stages)
    costly = [
        stage
        for stage in stages
        if stage.cpu_s_per_step > _TRIFLE * whole_s and in_turn(stage.node) is not None
    ]
    for stage in costly:
        share_s = budget_s / len(costly)
        found = elements_of_one(stage.node, stage.below[0].dataset, share_s)
        lasts_s = (found or 0) * (stage.wall_s or 0.0)
        stage.of_one = found if lasts_s >= _LEAST_INPUT_S else None


def _difference(stages: Sequence[Measured]) -> None:
    """From costs of all below to costs of stages; noise may not make a stage cost less than 0."""
    for stage in stages:
        if stage.node.kind in _PASSING_ON:
            stage.cpu_s = stage.wall_s = 0.0  # what it gave while it was timed may be of one branch
            continue
        whole, under = stage.probe.medians(), _under(stage)
        if whole is None or under is None:
            continue
        differences = tuple(max(0.0, a - b) for a, b in zip(whole, under, strict=True))
        stage.cpu_s, stage.wall_s = alone(stage, under[0]) or differences
        stage.prefix_cpu_s = _own(stage.prefix_probe, stage.cpu_s, under[0])
        stage.draw_cpu_s = _own(stage.draw_probe, stage.cpu_s, under[0])
        stage.needed_cpu_s = _own(stage.needed_probe, stage.cpu_s, under[0])
        stage.cropped_cpu_s = _cropped(stage, under[0])
        stage.single_cpu_s = _own(stage.single_probe, stage.cpu_s, under[0])
        stage.reading_cpu_s = _own(stage.reading_probe, stage.cpu_s, under[0])


def _own(probe: Probe | None, most: float, under: float) -> float | None:
    """CPU seconds of a part, or of another form, of a map that costs so much."""
    found = probe.medians() if probe else None
    return None if found is None else min(most, max(0.0, found[0] - under))


def _cropped(stage: Measured, under: float) -> float | None:
    """CPU seconds where no more is decoded than is cropped: of the map, or of both of them."""
    cost_s = stage.cpu_s or 0.0
    if not stage.crops_below:
        return _own(stage.cropped_probe, cost_s, under)
    lower = stage.below[0]
    least = _under(lower)
    if least is None or lower.cpu_s is None:
        return None
    return _own(stage.cropped_probe, cost_s + lower.cpu_s, least[0])


def _under(stage: Measured) -> tuple[float, float] | None:
    """CPU and elapsed seconds of what one element is made from."""
    cpu_s = wall_s = 0.0
    if stage.full:
        return cpu_s, wall_s
    for below, inputs in zip(stage.below, stage.inputs, strict=True):
        each = below.probe.medians()
        if each is None:
            return None
        if inputs is None and stage.node.kind in DROPPING:
            return None  # then all that it is made from would be its own
        cpu_s += (inputs or 0.0) * each[0]
        wall_s += (inputs or 0.0) * each[1]
    return cpu_s, wall_s


def _stage(whole: Pipeline, stage: Measured) -> Stage:
    node = stage.node
    options = whole.options
    return Stage(
        index=stage.index,
        first=stage.first,
        kind=node.kind,
        at=node.at,
        name=node.name,
        cpu_s_per_element=stage.cpu_s,
        wall_s_per_element=stage.wall_s,
        spread_cpu_s_per_element=_spread(stage),
        float32_cpu_s_per_element=stage.single_cpu_s,
        needed_cpu_s_per_element=stage.needed_cpu_s,
        ignores=stage.ignores,
        cropped_cpu_s_per_element=stage.cropped_cpu_s,
        crops_below=stage.crops_below and stage.cropped_cpu_s is not None,
        wide_at=None if stage.single_cpu_s is None else _wide_at(stage),
        bytes_per_element=stage.bytes,
        ratio=static_ratio(node) if stage.below else None,
        elements_per_step=stage.per_step,
        length=length if (length := int(node.dataset.cardinality())) >= ENDLESS else None,
        file_bytes=bytes_named(node),
        ahead=told_ahead(node),
        readers=readers(node) or (in_turn(node) if stage.of_one else None),
        of_one=stage.of_one,
        parallelism=AUTOTUNE if parallel_by_default(node, options) else node.parallelism,
        random=is_random(node),
        python=in_python(node),
        python_at=next(filter(None, map(python_at, node.functions)), None),
        in_files=node.in_complete_files,
        reading=_reading(stage),
        frozen=freezes_draws(node),
        draws_alike=draws_alike(node, ordered=ordered_by_default(whole)),
        opaque=node.kind == "opaque",
    )


def _before_the_cut(stage: Measured, *, repeats: bool) -> Prefix | None:
    """Of a map that repeats itself as a whole, or of another one."""
    if stage.prefix_cpu_s is None or stage.prefix_bytes is None:
        return None
    if stage.cut is None or stage.cut.repeats is not repeats:
        return None
    return Prefix(
        ops=stage.cut.ops,
        bytes_per_element=stage.prefix_bytes,
        cpu_s_per_element=stage.prefix_cpu_s,
    )


def _draws(stage: Measured) -> Draws | None:
    if stage.drawn is None or stage.draw_cpu_s is None:
        return None
    return Draws(ops=stage.drawn.ops, cpu_s_per_element=stage.draw_cpu_s)


def _inlined(stage: Measured) -> Inlined | None:
    probe, under = stage.inline_probe, _under(stage)
    if stage.handed and stage.inline_alone and under and alone(stage, under[0]):
        probe, under = stage.inline_alone, stage.handed.given.medians()
    found = probe.medians() if probe else None
    if found is None or under is None or stage.cpu_s is None or stage.wall_s is None:
        return None
    cpu_s, wall_s = (max(0.0, a - b) for a, b in zip(found, under, strict=True))
    return Inlined(
        cpu_s_per_element=min(stage.cpu_s, cpu_s), wall_s_per_element=min(stage.wall_s, wall_s)
    )


def _spread(stage: Measured) -> float | None:
    """CPU seconds that one call at a time costs more than several; a cost of threads."""
    alone, together = (probe.medians() for probe in stage.calls) if stage.calls else (None, None)
    return max(0.0, alone[0] - together[0]) if alone and together else None


def _wide_at(stage: Measured) -> str | None:
    """Where the script made the float64 numbers that a map is given, from a tensor in memory."""
    given = tf.nest.flatten(stage.below[0].node.dataset.element_spec)
    if tf.float64 not in [getattr(spec, "dtype", None) for spec in given]:
        return None  # it makes them itself
    wide = [
        tensor
        for source in _sources(stage)
        for tensor in getattr(source.dataset, "_tensors", ())
        if tensor.dtype == tf.float64
    ]
    return origin(max(wide, key=lambda tensor: tensor.shape.num_elements())) if wide else None


def _sources(stage: Measured) -> Iterator[Node]:
    if not stage.below:
        yield stage.node
    for below in stage.below:
        yield from _sources(below)


def _reading(stage: Measured) -> Reading | None:
    if stage.reading_cpu_s is None:
        return None
    return Reading(files=files_read(stage.node.functions[0]), cpu_s_per_element=stage.reading_cpu_s)


def _vectorized(stage: Measured) -> Vectorized | None:
    cost = stage.at_once.medians() if stage.at_once else None
    if stage.at_once is None or cost is None:
        return None
    return Vectorized(
        batch=stage.at_once.size,
        cpu_s_per_element=cost[0],
        wall_s_per_element=cost[1],
        first_bytes=stage.at_once.first_bytes,
        behind=stage.at_once.behind,
    )


def _ops(stages: Sequence[Measured], stage: Measured, budget_s: float) -> tuple[OpCost, ...]:
    """Of a map that costs something beside the others."""
    all_s = sum(each.cpu_s_per_step for each in stages)
    if stage.node.kind != "map" or not stage.below or stage.cpu_s_per_step <= _TRIFLE * all_s:
        return ()
    return op_costs(stage.node, elements_like(stage.below[0], budget_s), budget_s=budget_s)


def _repeated(stages: Sequence[Measured], joint: Measured) -> Repeated | None:
    shared = shared_by_branches(joint.node)
    if shared is None:
        return None
    made = [
        stage
        for stage in stages[joint.first : joint.index]
        if stage.node.dataset is shared.node.dataset
    ]
    again = [index for stage in made[1:] for index in range(stage.first, stage.index + 1)]
    return Repeated(times=shared.times, again=tuple(again), at=shared.again.at)
