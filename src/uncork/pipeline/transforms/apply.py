"""Apply an edit to a pipeline: check that it is what the edit expects, check that it is legal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import PASS_COUNTING_SOURCES, kind_of
from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields, rebuild
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import (
    AutotuneOff,
    Cache,
    DecodeAndCrop,
    DiskCache,
    DrawFirst,
    DropUnused,
    FilterFirst,
    GatherLast,
    GeneratorCache,
    GeneratorChunks,
    InlineMap,
    LessAhead,
    ParallelInterleave,
    ParallelMap,
    PipelineEdit,
    Prefetch,
    PyFunctionCache,
    ReadAhead,
    Rebatch,
    ShuffleFirst,
    SplitMap,
    StageEdit,
    VectorizeMap,
)
from uncork.pipeline.analysis.graph_rewrites import (
    find_fused_repeat,
    find_next_downstream,
    has_noop_elimination,
    is_fused_without,
    is_noop,
    prevent_new_fusion,
)
from uncork.pipeline.analysis.legality import (
    can_run_inline,
    find_cache_placement,
    find_downstream_batch,
    find_movable_maps,
    has_ignored_errors,
    is_inlined,
    is_random,
)
from uncork.pipeline.analysis.lookahead_draws import has_lookahead_draws
from uncork.pipeline.ir.builders import (
    add_rewrite_barrier,
    autotuned_prefetch,
    inline_map,
    memory_cache,
)
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.parallel_calls import set_open_parallel_calls
from uncork.pipeline.ir.tree import Pipeline, StageLocation, read_pipeline, rebuild_tree
from uncork.pipeline.transforms.dead_outputs import drop_unused_outputs
from uncork.pipeline.transforms.disk_cache import add_disk_cache
from uncork.pipeline.transforms.edit_invariants import check_other_stages_unchanged
from uncork.pipeline.transforms.filter_pushdown import find_bypassable_maps
from uncork.pipeline.transforms.generator_chunks import apply_generator_chunks
from uncork.pipeline.transforms.late_gather import gather_rows_last
from uncork.pipeline.transforms.read_ahead import apply_read_ahead
from uncork.pipeline.transforms.rebatch import apply_rebatch
from uncork.pipeline.transforms.stage_edits import (
    apply_generator_cache,
    apply_parallel_interleave,
    apply_py_function_cache,
    decode_cropped_part,
    draw_first,
    reduce_prefetching,
    run_map_in_parallel,
    split_map,
)
from uncork.pipeline.transforms.vectorize import rebuild_batch, vectorize_map

# What gives the elements of one stage instead of it, for each edit that replaces no other stage.
STAGE_HANDLERS: Final[dict[type[StageEdit], Callable[[StageLocation, Any], Dataset]]] = {
    Cache: lambda place, _: _cache(place, memory_cache),
    DecodeAndCrop: lambda place, _: _decode_and_crop(place),
    DiskCache: lambda place, edit: _cache(place, partial(add_disk_cache, place, edit)),
    DrawFirst: lambda place, _: draw_first(_map_at(place)),
    DropUnused: lambda place, _: _drop_unused(place),
    FilterFirst: lambda place, _: _filter_first(place),
    GeneratorCache: lambda place, edit: apply_generator_cache(place.node, edit),
    InlineMap: lambda place, _: _inline(place),
    LessAhead: lambda place, _: reduce_prefetching(place.node),
    ParallelInterleave: lambda place, _: apply_parallel_interleave(place),
    ParallelMap: lambda place, _: run_map_in_parallel(_map_at(place)),
    PyFunctionCache: lambda place, edit: apply_py_function_cache(_map_at(place), edit),
    ReadAhead: apply_read_ahead,
    SplitMap: lambda place, _: split_map(_map_at(place)),
}


def apply_edit(pipeline: Pipeline, edit: PipelineEdit) -> Pipeline:
    """The edited pipeline; the input pipeline stays unchanged and usable.

    Args:
        pipeline: As read, or as left by an earlier edit.
        edit: Made for exactly this structure.

    Raises:
        EditRefused: The pipeline is another one, has no such stage, or the edit is not legal.

    Example:
        >>> import tensorflow as tf
        >>> before = read_pipeline(tf.data.Dataset.range(4).map(lambda x: x + 1).shuffle(4))
        >>> after = apply_edit(before, Cache(stage=1, expected_digest=before.digest))
        >>> [node.kind for node in after.stages]
        ['range', 'map', 'cache', 'shuffle']
    """
    if edit.expected_digest != pipeline.digest:
        chain = " > ".join(node.kind for node in pipeline.stages)
        raise EditRefused(
            f"the pipeline has digest {pipeline.digest} ({chain}), not {edit.expected_digest}",
            "the pipeline that the edit was made for",
            "run 'uncork tune' again",
        )
    match edit:
        case Prefetch():
            changed = _prefetch(pipeline)
        case AutotuneOff():
            changed = _without_autotune(pipeline)
        case GatherLast():
            changed = gather_rows_last(pipeline)
        case Rebatch():
            changed = apply_rebatch(pipeline, edit)
        case _:
            changed = _with_stage_edited(pipeline, edit)
    found = read_pipeline(set_open_parallel_calls(changed))
    check_other_stages_unchanged(pipeline, found)
    # A map that draws and is run in parallel promises no more than other draws.
    resampled = isinstance(edit, ParallelMap) and is_random(
        pipeline.stage_locations[edit.stage].node
    )
    if not resampled and has_lookahead_draws(found) and not has_lookahead_draws(pipeline):
        raise EditRefused(
            "random numbers would be sampled for elements that no stage reads, and the next "
            "repetition would miss them",
            "a random map whose elements are not prefetched, or no stage before a repeat "
            "that stops it early",
            "keep it unchanged, or call take before the random map",
        )
    return found


def _with_stage_edited(pipeline: Pipeline, edit: StageEdit) -> Dataset:
    if not 0 <= edit.stage < len(pipeline.stage_locations):
        raise EditRefused(
            f"no stage {edit.stage}",
            f"a stage from 0 to {len(pipeline.stage_locations) - 1}",
            "run 'uncork tune' again",
        )
    if not has_noop_elimination(pipeline) and any(
        is_noop(place.node) for place in pipeline.stage_locations
    ):
        raise EditRefused(
            "a stage does nothing, and the options keep TensorFlow from removing it",
            "the default noop_elimination, or no such stage",
            "remove the stage",
        )
    place = pipeline.stage_locations[edit.stage]
    branch, top = place  # the highest of the stages that are replaced
    match edit:
        case GeneratorChunks():
            instead = apply_generator_chunks(pipeline, place, edit)
        case ShuffleFirst():
            top, instead = _shuffle_first(place)
        case VectorizeMap():
            top, instead = _vectorize(place)
        case _:
            instead = STAGE_HANDLERS[type(edit)](place, edit)
    old = branch.stages[top].dataset
    for place in pipeline.stage_locations:  # several branches may read it
        if place.node.dataset is old:
            instead = prevent_new_fusion(instead, place.pipeline.stages, place.position)

    # Branches that read the same dataset share its epochs and its cache: they still do.
    def made(node: Node, inputs: Sequence[Dataset]) -> Dataset:
        if node.dataset is old:
            return instead
        return rebuild(node.dataset, inputs) if inputs else node.dataset

    changed = rebuild_tree(pipeline.root, made)
    _check_still_shared(branch.stages[top], instead, changed)
    return changed


def _check_still_shared(old: Node, instead: Dataset, changed: Dataset) -> None:
    """Refuse a copy of a shuffle that other branches share with this one."""
    copied = _drawing(old) - _drawing(read_pipeline(instead).root)
    if copied & _drawing(read_pipeline(changed).root):
        raise EditRefused(
            "before this stage is a shuffle that another branch reads, too; a copy would "
            "shuffle in a different order",
            "a stage whose shuffles no other branch reads",
            "change the stages that the branches share, or keep it unchanged",
        )


def _drawing(node: Node) -> set[int]:
    """Datasets below a node that draw an order, or numbers, for all who read them."""
    own = {id(node.dataset)} if node.kind in ("shuffle", *PASS_COUNTING_SOURCES) else set()
    return own.union(*map(_drawing, node.inputs))


def _without_autotune(pipeline: Pipeline) -> Dataset:
    if pipeline.options.autotune.enabled is False:
        raise EditRefused(
            "tf.data's autotuner is off already", "an autotuner that is on", "keep it"
        )
    options = tf.data.Options()
    options.autotune.enabled = False
    # Options say how a pipeline is run, not what it gives; the public call merges them.
    return pipeline.dataset.with_options(options)


def _prefetch(pipeline: Pipeline) -> Dataset:
    if pipeline.root.kind == "prefetch":
        raise EditRefused(
            "the pipeline ends with a prefetch already", "a pipeline that does not", "keep it"
        )
    return autotuned_prefetch(pipeline.dataset)


def _map_at(place: StageLocation) -> Node:
    node = place.node
    if node.kind != "map" or place.position == 0:
        raise EditRefused(
            f"the edit is for a map, but the stage is {node}",
            "a map at this stage",
            "run 'uncork tune' again",
        )
    return node


def rebuild_onto(input_dataset: Dataset, nodes: Iterable[Node]) -> Dataset:
    """The given nodes, lowest first, each rebuilt on the one before."""
    for node in nodes:
        input_dataset = rebuild(node.dataset, [input_dataset])
    return input_dataset


def _cache(place: StageLocation, keep: Callable[[Dataset], Dataset]) -> Dataset:
    pipeline, node = place.pipeline, place.node
    if node.is_memory_cache:
        raise EditRefused(f"{node} is a cache already", "a stage that is not a cache", "keep it")
    found = find_cache_placement(pipeline, place.position)
    chain = pipeline.stages
    changed = keep(
        rebuild_onto(
            chain[found.upstream_stage].dataset, (chain[i] for i in found.maps_before_cache)
        )
    )
    return _kept_apart(pipeline, changed, found.stages_after_cache, gone=found.maps_before_cache)


def _kept_apart(
    pipeline: Pipeline, below: Dataset, stages: Iterable[int], *, gone: Iterable[int]
) -> Dataset:
    """Stages rebuilt without the maps that stood between them; what these kept apart stays so."""
    chain, gone = pipeline.stages, set(gone)
    for i in stages:
        if chain[i].kind == "repeat" and is_fused_without(chain, i, gone):
            below = add_rewrite_barrier(below)
        below = rebuild(chain[i].dataset, [below])
    return below


def _decode_and_crop(place: StageLocation) -> Dataset:
    if has_ignored_errors(*place):
        raise EditRefused(
            f"errors of stage {place.position} are ignored downstream, and fewer of them would "
            "occur",
            "errors that end the pass",
            "keep it unchanged",
        )
    return decode_cropped_part(_map_at(place))


def _drop_unused(place: StageLocation) -> Dataset:
    node, changed = _map_at(place), drop_unused_outputs(*place)
    if changed is None:
        raise EditRefused(
            f"no map before {node} computes anything that {node} ignores and that Uncork can drop",
            "a map that ignores part of its input, after maps that compute that part without "
            "random numbers, state or Python",
            "keep it unchanged",
        )
    return changed


def _filter_first(place: StageLocation) -> Dataset:
    (pipeline, stage), node = place, place.node
    maps, predicate = find_bypassable_maps(pipeline, stage)
    if not maps:
        raise EditRefused(
            f"{node} must stay where it is",
            "a filter directly after a map that passes on unchanged what the filter tests, "
            "or a shard or a skip after a map",
            "keep it there",
        )
    chain = pipeline.stages
    below = chain[maps[-1]].inputs[0].dataset
    if predicate is None:
        dropped = rebuild(node.dataset, [below])
    else:
        dropped = copy_with_fields(
            node.dataset, [below], kind_of(node.dataset), predicate=predicate
        )
    return rebuild_onto(dropped, chain[maps[-1] : stage])


def _shuffle_first(place: StageLocation) -> tuple[int, Dataset]:
    (pipeline, stage), node = place, place.node
    if node.kind != "shuffle":
        raise EditRefused(f"{node} is not a shuffle", "a shuffle", "choose a shuffle")
    chain, maps = pipeline.stages, find_movable_maps(pipeline, stage)
    if not maps:
        raise EditRefused(
            f"no map before {node} can move after it",
            "a map without random numbers, state or Python",
            "keep the shuffle where it is",
        )
    # Fused with a repeat, the shuffle draws otherwise than alone: that comes along.
    top = find_fused_repeat(chain, stage) or stage
    order = [*chain[stage : top + 1], *(chain[i] for i in maps)]
    return top, rebuild_onto(chain[maps[0] - 1].dataset, order)


def _vectorize(place: StageLocation) -> tuple[int, Dataset]:
    (pipeline, stage), node = place, _map_at(place)
    top = find_downstream_batch(pipeline, stage)
    batch = pipeline.stages[top]
    stacked = vectorize_map(node, batch)
    if stacked is None:
        raise EditRefused(
            f"the function of {node} cannot take a whole batch",
            "ops that tf.vectorized_map supports, or strings that are parsed one at a time",
            "keep the map before the batch",
        )
    below = node.inputs[0].dataset
    if stacked.unbatched_function is not None:
        below = copy_with_fields(
            node.dataset, [below], kind_of(node.dataset), map_func=stacked.unbatched_function
        )
    gone = () if stacked.unbatched_function is not None else (stage,)
    below = _kept_apart(pipeline, below, range(stage + 1, top), gone=gone)
    fields: dict[str, Any] = {"map_func": stacked.function}
    if is_inlined(node):  # it was for brief calls: those of a batch are others
        fields |= {"use_inter_op_parallelism": True, "force_synchronous": False}
    if node.parallelism not in (None, 1):
        # So many elements at once are not so many batches, which all would be in memory.
        fields["num_parallel_calls"] = tf.constant(tf.data.AUTOTUNE, tf.int64)
    return top, copy_with_fields(
        node.dataset, [rebuild_batch(below, batch)], kind_of(node.dataset), **fields
    )


def _inline(place: StageLocation) -> Dataset:
    node = _map_at(place)
    if not can_run_inline(node):
        raise EditRefused(
            f"the thread that reads the elements cannot make the calls of {node} one after "
            "the other",
            "a map without Python, branches and loops that is not inline already; a parallel "
            "map also without random numbers and state, and with its order kept",
            "keep it unchanged",
        )
    changed = inline_map(node.inputs[0].dataset, parameter(node.dataset, "map_func"), node.dataset)
    chain = place.pipeline.stages
    above = find_next_downstream(chain, place.position)
    # TensorFlow fuses a map with the batch above it, and hands each call to a thread again.
    batched = above is not None and chain[above].kind == "batch"
    return add_rewrite_barrier(changed) if batched else changed
