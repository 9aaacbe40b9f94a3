"""Apply an edit to a pipeline: check that it is what the edit expects, check that it is legal."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from uncork.core.edit import AutotuneOff, Cache, ParallelMap, PipelineEdit, Prefetch, SplitMap
from uncork.core.errors import EditRefused
from uncork.pipeline.functions import Split, may_overlap, split
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.legality import cache_place
from uncork.pipeline.nodes import (
    barrier,
    derived,
    memory_cache,
    parallel_map,
    prefetched,
)
from uncork.pipeline.rebuild import make, rebuild
from uncork.pipeline.tree import Node, Pipeline, read


def apply(pipeline: Pipeline, edit: PipelineEdit) -> Pipeline:
    """The changed pipeline; the given one stays as it was and may still be used.

    Args:
        pipeline: As read, or as left by an earlier edit.
        edit: Made for exactly this structure.

    Raises:
        EditRefused: The pipeline is another, has no such stage, or the change would not be exact.

    Example:
        >>> import tensorflow as tf
        >>> before = read(tf.data.Dataset.range(4).map(lambda x: x + 1).shuffle(4))
        >>> after = apply(before, Cache(stage=1, expects=before.digest))
        >>> [node.kind for node in after.stages]
        ['range', 'map', 'cache', 'shuffle']
    """
    if edit.expects != pipeline.digest:
        chain = " > ".join(node.kind for node in pipeline.stages)
        raise EditRefused(
            f"the pipeline has digest {pipeline.digest} ({chain}), not {edit.expects}",
            "the pipeline that the edit was made for",
            "run 'uncork tune' again",
        )
    match edit:
        case SplitMap(stage=stage):
            changed = _split_map(pipeline, _map_at(pipeline, stage), stage)
        case Cache(stage=stage):
            changed = _cache(pipeline, _stage(pipeline, stage), stage)
        case ParallelMap(stage=stage):
            changed = _parallel(pipeline, _map_at(pipeline, stage), stage)
        case Prefetch():
            changed = _prefetch(pipeline)
        case AutotuneOff():
            changed = _without_autotune(pipeline)
    return read(changed)


def _without_autotune(pipeline: Pipeline) -> Dataset:
    if pipeline.dataset.options().autotune.enabled is False:
        raise EditRefused("tf.data's autotuner is off already", "one that is on", "keep it")
    options = tf.data.Options()
    options.autotune.enabled = False
    # Options say how a pipeline is run, not what it gives; the public call merges them.
    return pipeline.dataset.with_options(options)


def _prefetch(pipeline: Pipeline) -> Dataset:
    if pipeline.root.kind == "prefetch":
        raise EditRefused("the pipeline ends with a prefetch", "one that does not", "keep it")
    return prefetched(pipeline.dataset)


def _stage(pipeline: Pipeline, stage: int) -> Node:
    if not 0 <= stage < len(pipeline.stages):
        raise EditRefused(
            f"no stage {stage}", f"0 to {len(pipeline.stages) - 1}", "run 'uncork tune' again"
        )
    return pipeline.stages[stage]


def _map_at(pipeline: Pipeline, stage: int) -> Node:
    node = _stage(pipeline, stage)
    if node.kind != "map" or stage == 0:
        raise EditRefused(
            f"stage {stage} is a {node.kind}", "a map", "choose a stage of kind 'map'"
        )
    return node


def onto(below: Dataset, nodes: Iterable[Node]) -> Dataset:
    """The given nodes, lowest first, each rebuilt on the one before."""
    for node in nodes:
        below = rebuild(node.dataset, [below])
    return below


def _split_map(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
    cut = split(node.functions[0])
    if cut is None:
        raise EditRefused(
            f"the map at stage {stage} has no deterministic part to cut off",
            "deterministic ops before the first random one",
            "leave the map whole",
        )
    return onto(second_half(node, cut, first_half(node, cut)), pipeline.stages[stage + 1 :])


def first_half(node: Node, cut: Split) -> Dataset:
    """The deterministic part as a parallel map of its own; order kept, so it is exact."""
    function = derived(node.dataset._map_func, cut.prefix, cut.specs)
    return parallel_map(node.inputs[0].dataset, function, node.dataset)


def second_half(node: Node, cut: Split, below: Dataset) -> Dataset:
    """The rest, run as the whole was: a serial map stays serial, so its draws keep their order."""
    rest = derived(node.dataset._map_func, cut.rest)
    return make(node.dataset, [below], kind_of(node.dataset), _map_func=rest)


def _cache(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
    if node.in_memory:
        raise EditRefused(f"stage {stage} is a cache already", "a stage without one", "keep it")
    place = cache_place(pipeline, stage)
    chain = pipeline.stages
    changed = memory_cache(onto(chain[place.above].dataset, (chain[i] for i in place.sunk)))
    for i in place.raised:
        # TensorFlow fuses a shuffle with a repeat directly above it, and the fused one draws its
        # later epochs otherwise. Where a map kept the two apart, they must stay apart.
        if chain[i].kind == "repeat" and i - 1 in place.sunk:
            changed = barrier(changed)
        changed = rebuild(chain[i].dataset, [changed])
    return onto(changed, chain[stage + 1 :])


def _parallel(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
    if node.kind != "map" or node.parallelism != 1:
        raise EditRefused(
            f"the map at stage {stage} is parallel already", "a serial map", "keep it"
        )
    if getattr(node.dataset, "_force_synchronous", False):
        raise EditRefused(
            f"the map at stage {stage} was made synchronous on purpose", "a plain map", "keep it"
        )
    if not may_overlap(node.functions[0]):
        raise EditRefused(
            f"the map at stage {stage} keeps state or runs Python; in parallel its calls would"
            " come in another order",
            "a function whose calls do not depend on each other",
            "split it first",
        )
    below = node.inputs[0].dataset
    changed = parallel_map(below, node.dataset._map_func, node.dataset)
    return onto(changed, pipeline.stages[stage + 1 :])
