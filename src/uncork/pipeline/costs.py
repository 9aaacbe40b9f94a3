"""What each stage of a pipeline costs, and what a cache would spare.

TensorFlow's own model counts elapsed time of kernels, which grows when threads crowd. Here each
prefix of the chain is run serially and timed with the process's CPU clock; the difference of two
neighbours is the cost of the stage between them.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.edit import SplitMap
from uncork.core.errors import EditRefused
from uncork.core.stage import AUTOTUNE, CachePoint, Prefix, Repeated, Stage
from uncork.pipeline.edits import apply, first_half
from uncork.pipeline.frozen import freezes_draws
from uncork.pipeline.functions import Split, python_at, runs_python, split
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.legality import (
    MOVABLE,
    cache_place,
    is_random,
    ordered_by_default,
    parallel_by_default,
)
from uncork.pipeline.nodes import serial_map
from uncork.pipeline.probes import (
    Probe,
    bytes_of,
    count,
    inputs_for_one,
    serial_twin,
    serially,
    take_turns,
)
from uncork.pipeline.seeded import state_kept
from uncork.pipeline.shared import Shared, shared_by_branches
from uncork.pipeline.tree import Node, Pipeline, read

_DROPPING: Final = frozenset({"filter", "take_while", "unique"})
_VARYING: Final = _DROPPING | {"flat_map", "interleave", "unbatch", "tfrecord"}
_PARTIAL: Final = frozenset({"take", "take_while"})
# Filling a user's cache or counting records may take this part of the budget.
_PASS_SHARE: Final = 0.5
# A cache that spares less than this part of the pipeline's work is not worth its memory.
_WORTH: Final = 0.02


@dataclass
class _Measured:
    """One stage while its figures come in."""

    node: Node
    dataset: Dataset
    probe: Probe
    cut: Split | None = None
    prefix_probe: Probe | None = None
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
        kinds = ((s.probe, s.prefix_probe, s.shared_probe) for s in chain)
        probes = [p for of_stage in kinds for p in of_stage if p is not None]
        take_turns(list({id(p): p for p in probes}.values()), max(left, budget_s / 4))
        _difference(chain)
        points = [_cache_point(pipeline, chain, i, budget_s / 8) for i in range(len(chain))]
    ordered = ordered_by_default(pipeline)
    options = pipeline.dataset.options()
    return tuple(_stage(i, s, points[i], ordered, options) for i, s in enumerate(chain))


def _chain(pipeline: Pipeline) -> list[_Measured]:
    chain: list[_Measured] = []
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
        chain.append(stage)
        below = dataset
    return chain


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
        bytes_per_element=stage.bytes,
        ratio=_static_ratio(node) if index else None,
        elements_per_step=stage.per_step,
        parallelism=AUTOTUNE if parallel_by_default(node, options) else node.parallelism,
        random=is_random(node, ordered=ordered),
        python=node.kind == "from_generator" or any(map(runs_python, node.functions)),
        python_at=next(filter(None, map(python_at, node.functions)), None),
        repeated=_repeated(stage),
        frozen=freezes_draws(node),
        prefix=prefix,
        cache_point=point,
        opaque=node.kind == "opaque",
    )


def _repeated(stage: _Measured) -> Repeated | None:
    cost = stage.shared_probe.medians() if stage.shared_probe else None
    if stage.shared is None or cost is None:
        return None
    return Repeated(times=stage.shared.times, cpu_s_per_element=cost[0], at=stage.shared.again.at)


def supply(dataset: Any, *, budget_s: float) -> tuple[float, float]:
    """How fast the whole pipeline gives batches when nobody else needs the machine.

    Args:
        dataset: As it would be trained on; started anew when it ends, as epochs do.
        budget_s: Seconds to iterate. The first half, in which buffers and caches fill, is not
            counted.

    Returns:
        Batches per second and CPU seconds per batch; ``(0.0, 0.0)`` for an empty dataset.

    Example:
        >>> rate, cpu_s = supply(tf.data.Dataset.range(100).batch(10), budget_s=0.05)
        >>> rate > 0
        True
    """
    with state_kept(read(dataset)):
        return _steady_rate(dataset, budget_s)


def _steady_rate(dataset: Any, budget_s: float) -> tuple[float, float]:
    marks = _marks(dataset, budget_s)
    if len(marks) < 2:
        return 0.0, 0.0
    half = marks[0][0] + (marks[-1][0] - marks[0][0]) / 2
    late = [mark for mark in marks if mark[0] >= half]
    late = late if len(late) > 1 else marks
    batches = len(late) - 1
    wall, cpu = late[-1][0] - late[0][0], late[-1][1] - late[0][1]
    return (batches / wall if wall > 0 else 0.0), cpu / batches


def _marks(dataset: Any, budget_s: float) -> list[tuple[float, float]]:
    """Elapsed and CPU time at the arrival of each batch."""
    marks: list[tuple[float, float]] = []
    deadline = time.perf_counter() + budget_s
    while time.perf_counter() < deadline:
        seen = len(marks)
        try:
            for _ in dataset:
                marks.append((time.perf_counter(), time.process_time()))
                if marks[-1][0] > deadline:
                    return marks
        except tf.errors.OpError:
            pass
        if len(marks) == seen:
            break
    return marks
