"""What each stage of a pipeline costs, and what a cache would spare.

TensorFlow's own model counts elapsed time of kernels, which grows when threads crowd. Here each
prefix of the chain is run serially and timed with the process's CPU clock; the difference of two
neighbours is the cost of the stage between them.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import tensorflow as tf

from uncork.core.edit import SplitMap
from uncork.core.errors import EditRefused
from uncork.core.record import replace
from uncork.core.stage import (
    AUTOTUNE,
    Buffer,
    CachePoint,
    Prefix,
    Repeated,
    Stage,
    Vectorized,
)
from uncork.measure.machine import cpus
from uncork.pipeline.edits import apply, first_half
from uncork.pipeline.filtering import filtered_first
from uncork.pipeline.frozen import freezes_draws
from uncork.pipeline.functions import Split, python_at, runs_python, split
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.legality import (
    MOVABLE,
    batch_above,
    cache_place,
    is_random,
    maps_below,
    ordered_by_default,
    parallel_by_default,
)
from uncork.pipeline.nodes import MapFunction, parallel_map, serial_map
from uncork.pipeline.probes import (
    Probe,
    bytes_of,
    count,
    inputs_for_one,
    on_all_cores,
    serial_twin,
    serially,
    take_turns,
)
from uncork.pipeline.seeded import state_kept
from uncork.pipeline.shared import Shared, shared_by_branches
from uncork.pipeline.tree import Node, Pipeline
from uncork.pipeline.vectorize import batch_size as size_of
from uncork.pipeline.vectorize import batched, vectorized

_DROPPING: Final = frozenset({"filter", "take_while", "unique", "ignore_errors"})
_VARYING: Final = _DROPPING | {
    "flat_map", "interleave", "unbatch", "rebatch", "group_by_window", "tfrecord",
}  # fmt: skip
_PARTIAL: Final = frozenset({"take", "take_while"})
# Filling a user's cache or counting records may take this part of the budget.
_PASS_SHARE: Final = 0.5
# A cache that spares less than this part of the pipeline's work is not worth its memory.
_WORTH: Final = 0.02


@dataclass
class _AtOnce:
    """A map's function on whole batches, and the batches it takes: the difference is its cost."""

    size: int
    taken: Probe
    made: Probe

    def medians(self) -> tuple[float, float] | None:
        """CPU and elapsed seconds for each element; None when nothing was pulled."""
        taken, made = self.taken.medians(), self.made.medians()
        if taken is None or made is None:
            return None
        cpu_s, wall_s = (max(0.0, b - a) / self.size for a, b in zip(taken, made, strict=True))
        return cpu_s, wall_s


@dataclass
class _Measured:
    """One stage while its figures come in."""

    node: Node
    dataset: Dataset
    probe: Probe
    cut: Split | None = None
    prefix_probe: Probe | None = None
    at_once: _AtOnce | None = None
    calls: tuple[Probe, Probe] | None = None
    shared: Shared | None = None
    shared_probe: Probe | None = None
    inputs: float | None = 1.0
    per_step: float | None = None
    bytes: int | None = None
    prefix_bytes: int | None = None
    cpu_s: float | None = None
    wall_s: float | None = None
    prefix_cpu_s: float | None = None


def measure(pipeline: Pipeline, *, batch_size: int | None, budget_s: float) -> tuple[Stage, ...]:
    """Run every prefix of the pipeline for a while, and say what each stage costs.

    Costs are those of later epochs: below a cache, ``elements_per_step`` is 0.

    Args:
        pipeline: As the user made it. Shuffles and random generators are not moved on; an
            in-memory cache is filled when a pass is short, and stays filled.
        batch_size: Samples a step, used where a stage's ratio cannot be counted.
        budget_s: Seconds to spend, roughly; slow elements take what three of them take.
    """
    started = time.monotonic()
    with state_kept(pipeline):
        chain = _chain(pipeline)
        _fill_caches(chain, budget_s * _PASS_SHARE)
        for stage in chain:
            stage.bytes = bytes_of(stage.dataset, budget_s=budget_s / len(chain) / 8)
        _count_ratios(chain, batch_size, budget_s / 8)
        left = budget_s - (time.monotonic() - started)
        probes = [probe for stage in chain for probe in _probes(stage)]
        take_turns(list({id(p): p for p in probes}.values()), max(left, budget_s / 4))
        _difference(chain)
        points = [_cache_point(pipeline, chain, i, budget_s / 8) for i in range(len(chain))]
        buffers = [_buffer(pipeline, chain, i) for i in range(len(chain))]
    ordered = ordered_by_default(pipeline)
    options = pipeline.dataset.options()
    return tuple(
        replace(
            _stage(i, s, points[i], ordered, options),
            buffer=buffers[i],
            may_precede=filtered_first(pipeline, i)[0],
        )
        for i, s in enumerate(chain)
    )


def _probes(stage: _Measured) -> list[Probe]:
    at_once = (stage.at_once.taken, stage.at_once.made) if stage.at_once else ()
    every = (
        stage.probe, stage.prefix_probe, stage.shared_probe, *at_once, *(stage.calls or ()),
    )  # fmt: skip
    return [probe for probe in every if probe is not None]


def _chain(pipeline: Pipeline) -> list[_Measured]:
    chain: list[_Measured] = []
    for_batches = _for_batches(pipeline)
    below: Dataset | None = None
    for node in pipeline.stages:
        dataset = serial_twin(node, below)
        same = chain and dataset is chain[-1].dataset
        stage = _Measured(node, dataset, chain[-1].probe if same else Probe(dataset))
        if below is not None and node.kind == "map":
            stage.cut = split(node.functions[0])
        stage.shared = shared_by_branches(node)
        if stage.shared is not None:
            stage.shared_probe = Probe(stage.shared.node.dataset)
        if stage.cut is not None:
            half = first_half(node, stage.cut)
            half = serial_map(below, half._map_func, half)
            stage.prefix_probe = Probe(half)
            stage.prefix_bytes = bytes_of(half)
        if node.kind == "map" and node.parallelism == 1 and not _in_python(node):
            together = parallel_map(below, dataset._map_func, dataset, calls=math.ceil(cpus()))
            stage.calls = Probe(dataset, on_all_cores), Probe(together, on_all_cores)
        if len(chain) in for_batches:
            batch, function = for_batches[len(chain)]
            taken = batched(below, batch)
            made = serial_map(taken, function, node.dataset)
            stage.at_once = _AtOnce(size_of(batch), Probe(taken), Probe(made))
        chain.append(stage)
        below = dataset
    return chain


def _for_batches(pipeline: Pipeline) -> dict[int, tuple[Node, MapFunction]]:
    """Maps that can be moved above a batch, highest first, with that batch and their function."""
    found: dict[int, tuple[Node, MapFunction]] = {}
    for index in reversed(range(1, len(pipeline.stages))):
        try:
            batch = pipeline.stages[batch_above(pipeline, index, moved=found)]
        except EditRefused:
            continue
        function = vectorized(pipeline.stages[index], batch)
        if function is not None:
            found[index] = batch, function
    return found


def _fill_caches(chain: list[_Measured], budget_s: float) -> None:
    """See a user's in-memory cache through once, so that what is measured are later epochs."""
    for stage in chain:
        if stage.node.in_memory and _spares(stage.node):
            count(serially(stage.dataset), budget_s=budget_s)


def _count_ratios(chain: list[_Measured], batch_size: int | None, budget_s: float) -> None:
    for below, stage in itertools.pairwise(chain):
        stage.inputs = _static_ratio(stage.node)
        if stage.inputs is None and stage.node.kind in _VARYING and kind_of(stage.node.dataset).op:
            stage.inputs = inputs_for_one(stage.node, below.dataset, budget_s=budget_s)
    per_step: float | None = 1.0
    for stage in reversed(chain):
        stage.per_step = per_step
        if _spares(stage.node):
            per_step = 0.0
        elif stage.inputs is not None and per_step is not None:
            per_step *= stage.inputs
        else:
            per_step = float(batch_size) if batch_size and stage.node.kind in _DROPPING else None


def _spares(node: Node) -> bool:
    """A cache that is full after the first epoch; one of endless data is never read again."""
    return node.kind == "cache" and int(node.dataset.cardinality()) != tf.data.INFINITE_CARDINALITY


def _static_ratio(node: Node) -> float | None:
    """Input elements for one output element where the parameters say so."""
    if node.kind in ("batch", "padded_batch"):
        return float(np.asarray(node.dataset._batch_size))
    if node.kind == "shard":
        return float(np.asarray(node.dataset._num_shards))
    if node.kind == "window":
        return float(np.asarray(node.dataset._shift))
    return None if node.kind in _VARYING else 1.0


def _difference(chain: list[_Measured]) -> None:
    """From costs of prefixes to costs of stages; noise may not make a stage cost less than 0."""
    under: tuple[float, float] | None = (0.0, 0.0)
    for stage in chain:
        whole = stage.probe.medians()
        if whole is not None and under is not None:
            # Reading from a filled cache does none of the work below it.
            full = stage.node.in_memory and _spares(stage.node)
            inputs = 0.0 if full else (stage.inputs or 0.0)
            stage.cpu_s = max(0.0, whole[0] - inputs * under[0])
            stage.wall_s = max(0.0, whole[1] - inputs * under[1])
            half = stage.prefix_probe.medians() if stage.prefix_probe else None
            if half is not None:
                stage.prefix_cpu_s = min(stage.cpu_s, max(0.0, half[0] - under[0]))
        under = whole


def _cost(stage: _Measured) -> float:
    return (stage.cpu_s or 0.0) * (stage.per_step or 0.0)


def _cache_point(
    pipeline: Pipeline, chain: list[_Measured], index: int, budget_s: float
) -> CachePoint | None:
    stage = chain[index]
    if stage.node.kind in MOVABLE | {"cache"}:
        return None  # gives what the stage below gives; that one has the point
    if any(s.node.kind in _PARTIAL for s in chain[index + 1 :]):
        return None  # never read to its end, so never complete
    halved = stage.cut is not None and stage.prefix_cpu_s is not None
    size = stage.prefix_bytes if halved else stage.bytes
    try:
        changed = (
            apply(pipeline, SplitMap(stage=index, expects=pipeline.digest)) if halved else pipeline
        )
        place = cache_place(changed, index)
    except EditRefused:
        return None
    elements = int(changed.stages[place.above].dataset.cardinality())
    if elements < 0:
        elements = count(chain[min(place.above, index)].dataset, budget_s=budget_s) or 0
    spared = [chain[i] for i in (*range(place.above + 1), *place.sunk) if i != index or not halved]
    # Reading from the new cache costs what reading from an old one below did.
    saved = sum(_cost(s) for s in spared if s.node.kind != "cache")
    if halved:
        saved += (stage.prefix_cpu_s or 0.0) * (stage.per_step or 0.0)
    if not size or not elements or saved <= _WORTH * sum(map(_cost, chain)):
        return None
    return CachePoint(
        elements=elements,
        memory_bytes=elements * size,
        saved_cpu_s_per_step=saved,
        below=tuple(changed.stages[i].kind for i in place.raised),
    )


def _buffer(pipeline: Pipeline, chain: list[_Measured], index: int) -> Buffer | None:
    node = pipeline.stages[index]
    maps = maps_below(pipeline, index) if node.kind == "shuffle" else ()
    above = pipeline.stages[index + 1 : index + 2]
    if any(other.kind == "repeat" for other in above):
        return None  # fused with it, the buffer is filled for the next pass while this one drains
    held = chain[maps[0] - 1].bytes if maps else None
    given = _given(chain, index)
    if held is None or not given:
        return None
    elements, there = int(np.asarray(node.dataset._buffer_size)), _length(node.inputs[0])
    return Buffer(
        elements=elements if there is None else min(elements, there),
        of=given,
        maps=maps,
        bytes_per_element=held,
    )


def _given(chain: list[_Measured], index: int) -> int | None:
    """Elements that a stage gives in one pass; a ``take`` above may end it early."""
    least = _length(chain[index].node)
    for above in range(index + 1, len(chain)):
        node, per_step = chain[above].node, chain[index].per_step
        if node.kind == "repeat":
            break  # a pass ends there, and the next one begins
        taken, each = _length(node) if node.kind == "take" else None, chain[above].per_step
        if taken is not None and per_step and each:
            wanted = math.ceil(taken * per_step / each)
            least = wanted if least is None else min(least, wanted)
    return least


def _length(node: Node) -> int | None:
    elements = int(node.dataset.cardinality())
    return elements if elements >= 0 else None


def _stage(
    index: int,
    stage: _Measured,
    point: CachePoint | None,
    ordered: bool,
    options: tf.data.Options,
) -> Stage:
    node = stage.node
    prefix = None
    if stage.cut and stage.prefix_cpu_s is not None and stage.prefix_bytes is not None:
        prefix = Prefix(
            ops=stage.cut.ops,
            bytes_per_element=stage.prefix_bytes,
            cpu_s_per_element=stage.prefix_cpu_s,
        )
    return Stage(
        index=index,
        kind=node.kind,
        at=node.at,
        name=node.name,
        cpu_s_per_element=stage.cpu_s,
        wall_s_per_element=stage.wall_s,
        spread_cpu_s_per_element=_spread(stage),
        bytes_per_element=stage.bytes,
        ratio=_static_ratio(node) if index else None,
        elements_per_step=stage.per_step,
        parallelism=AUTOTUNE if parallel_by_default(node, options) else node.parallelism,
        random=is_random(node, ordered=ordered),
        python=_in_python(node),
        python_at=next(filter(None, map(python_at, node.functions)), None),
        repeated=_repeated(stage),
        frozen=freezes_draws(node),
        prefix=prefix,
        cache_point=point,
        vectorized=_vectorized(stage),
        opaque=node.kind == "opaque",
    )


def _spread(stage: _Measured) -> float | None:
    """CPU seconds that one call at a time costs more than several; a cost of threads."""
    alone, together = (probe.medians() for probe in stage.calls) if stage.calls else (None, None)
    return max(0.0, alone[0] - together[0]) if alone and together else None


def _in_python(node: Node) -> bool:
    return node.kind == "from_generator" or any(map(runs_python, node.functions))


def _vectorized(stage: _Measured) -> Vectorized | None:
    cost = stage.at_once.medians() if stage.at_once else None
    if stage.at_once is None or cost is None:
        return None
    return Vectorized(
        batch=stage.at_once.size, cpu_s_per_element=cost[0], wall_s_per_element=cost[1]
    )


def _repeated(stage: _Measured) -> Repeated | None:
    cost = stage.shared_probe.medians() if stage.shared_probe else None
    if stage.shared is None or cost is None:
        return None
    return Repeated(times=stage.shared.times, cpu_s_per_element=cost[0], at=stage.shared.again.at)
