"""Apply an edit to a pipeline: check that it is what the edit expects, check that it is legal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from uncork.core.edit import (
    AutotuneOff,
    Cache,
    FilterFirst,
    ParallelMap,
    PipelineEdit,
    Prefetch,
    ShuffleFirst,
    SplitMap,
    VectorizeMap,
)
from uncork.core.errors import EditRefused
from uncork.pipeline.filtering import filtered_first
from uncork.pipeline.functions import Split, may_overlap, split
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.legality import batch_above, cache_place, maps_below
from uncork.pipeline.nodes import (
    barrier,
    derived,
    memory_cache,
    parallel_map,
    prefetched,
)
from uncork.pipeline.rebuild import make, rebuild
from uncork.pipeline.tree import Node, Pipeline, read
from uncork.pipeline.vectorize import batched, vectorized


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
        case FilterFirst(stage=stage):
            changed = _filter_first(pipeline, _stage(pipeline, stage), stage)
        case ShuffleFirst(stage=stage):
            changed = _shuffle_first(pipeline, _stage(pipeline, stage), stage)
        case VectorizeMap(stage=stage):
            changed = _vectorize(pipeline, _map_at(pipeline, stage), stage)
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
    changed = _kept_apart(pipeline, changed, place.raised, gone=place.sunk)
    return onto(changed, chain[stage + 1 :])


def _kept_apart(
    pipeline: Pipeline, below: Dataset, stages: Iterable[int], *, gone: Iterable[int]
) -> Dataset:
    """Stages rebuilt without the maps that stood between them.

    TensorFlow fuses a shuffle with a repeat directly above it, and the fused one draws its later
    epochs otherwise. Where a map kept the two apart, they must stay apart.
    """
    chain, gone = pipeline.stages, set(gone)
    for i in stages:
        if chain[i].kind == "repeat" and i - 1 in gone:
            below = barrier(below)
        below = rebuild(chain[i].dataset, [below])
    return below


def _filter_first(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
    maps, predicate = filtered_first(pipeline, stage)
    if not maps:
        raise EditRefused(
            f"stage {stage}, a {node.kind}, must stay where it is",
            "a filter directly above a map that only passes on what the filter goes by",
            "leave it there",
        )
    chain = pipeline.stages
    below = chain[maps[-1]].inputs[0].dataset
    dropped = make(node.dataset, [below], kind_of(node.dataset), _predicate=predicate)
    return onto(dropped, [*chain[maps[-1] : stage], *chain[stage + 1 :]])


def _shuffle_first(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
    if node.kind != "shuffle":
        raise EditRefused(f"stage {stage} is a {node.kind}", "a shuffle", "choose one")
    chain, maps = pipeline.stages, maps_below(pipeline, stage)
    if not maps:
        raise EditRefused(
            f"below the shuffle at stage {stage} lies no map that could stand above it",
            "a map that neither draws random numbers, nor keeps state, nor runs Python",
            "leave the shuffle where it is",
        )
    # A repeat directly above is fused with the shuffle, and draws otherwise alone: it comes along.
    repeated = [above for above in chain[stage + 1 : stage + 2] if above.kind == "repeat"]
    order = [node, *repeated, *(chain[i] for i in maps)]
    return onto(chain[maps[0] - 1].dataset, [*order, *chain[stage + 1 + len(repeated) :]])


def _vectorize(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
    place = batch_above(pipeline, stage)
    batch = pipeline.stages[place]
    function = vectorized(node, batch)
    if function is None:
        raise EditRefused(
            f"the function of the map at stage {stage} cannot take a whole batch",
            "ops that TensorFlow's vectorized_map knows, or strings parsed one by one",
            "leave the map before the batch",
        )
    below = node.inputs[0].dataset
    below = _kept_apart(pipeline, below, range(stage + 1, place), gone={stage})
    fields: dict[str, Any] = {"_map_func": function}
    if node.parallelism not in (None, 1):
        # So many elements at once are not so many batches, which all would be in memory.
        fields["_num_parallel_calls"] = tf.constant(tf.data.AUTOTUNE, tf.int64)
    mapped = make(node.dataset, [batched(below, batch)], kind_of(node.dataset), **fields)
    return onto(mapped, pipeline.stages[place + 1 :])


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
