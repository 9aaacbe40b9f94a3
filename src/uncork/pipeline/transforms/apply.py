"""Apply an edit to a pipeline: check that it is what the edit expects, check that it is legal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

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
from uncork.pipeline.ir.tree import Pipeline, read_pipeline, rebuild_tree
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
    apply_map_edit,
    apply_parallel_interleave,
    reduce_prefetching,
)
from uncork.pipeline.transforms.vectorize import rebuild_batch, vectorize_map

_OfOneStage = (
    InlineMap
    | Cache
    | DiskCache
    | DropUnused
    | FilterFirst
    | ParallelInterleave
    | ReadAhead
    | LessAhead
    | GeneratorCache
)
_InOneBranch = (
    _OfOneStage
    | ShuffleFirst
    | VectorizeMap
    | SplitMap
    | ParallelMap
    | DrawFirst
    | DecodeAndCrop
    | PyFunctionCache
)


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
    branch, top = place
    if isinstance(edit, GeneratorChunks):
        instead = apply_generator_chunks(pipeline, place, edit)
    else:
        top, instead = _replaced(edit, *place)
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


def _replaced(edit: _InOneBranch, pipeline: Pipeline, stage: int) -> tuple[int, Dataset]:
    """What gives the elements of some stages instead of them.

    Args:
        edit: What to do.
        pipeline: The branch it is done to, or the whole pipeline.
        stage: Position in its main chain.

    Returns:
        The position of the highest of the stages, and the dataset that gives what it gave.
    """
    match edit:
        case ShuffleFirst():
            return _shuffle_first(pipeline, pipeline.stages[stage], stage)
        case VectorizeMap():
            return _vectorize(pipeline, _map_at(pipeline, stage), stage)
        case DecodeAndCrop() if has_ignored_errors(pipeline, stage):
            raise EditRefused(
                f"errors of stage {stage} are ignored downstream, and fewer of them would occur",
                "errors that end the pass",
                "keep it unchanged",
            )
        case SplitMap() | ParallelMap() | DrawFirst() | DecodeAndCrop() | PyFunctionCache():
            return stage, apply_map_edit(edit, _map_at(pipeline, stage))
        case _:
            return stage, _in_place(edit, pipeline, stage)


def _in_place(edit: _OfOneStage, pipeline: Pipeline, stage: int) -> Dataset:
    """What gives the elements of one stage instead of it."""
    node = pipeline.stages[stage]
    match edit:
        case InlineMap():
            changed = _inline(pipeline, _map_at(pipeline, stage), stage)
        case Cache():
            changed = _cache(pipeline, node, stage, memory_cache)
        case DiskCache():
            changed = _cache(pipeline, node, stage, partial(add_disk_cache, pipeline, node, edit))
        case DropUnused():
            changed = _drop_unused(pipeline, _map_at(pipeline, stage), stage)
        case FilterFirst():
            changed = _filter_first(pipeline, node, stage)
        case ParallelInterleave():
            changed = apply_parallel_interleave(pipeline, node, stage)
        case ReadAhead():
            changed = apply_read_ahead(pipeline, node, stage, edit)
        case LessAhead():
            changed = reduce_prefetching(node)
        case GeneratorCache():
            changed = apply_generator_cache(node, edit)
    return changed


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


def _map_at(pipeline: Pipeline, stage: int) -> Node:
    node = pipeline.stages[stage]
    if node.kind != "map" or stage == 0:
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


def _cache(
    pipeline: Pipeline, node: Node, stage: int, keep: Callable[[Dataset], Dataset]
) -> Dataset:
    if node.is_memory_cache:
        raise EditRefused(f"{node} is a cache already", "a stage that is not a cache", "keep it")
    place = find_cache_placement(pipeline, stage)
    chain = pipeline.stages
    changed = keep(
        rebuild_onto(
            chain[place.upstream_stage].dataset, (chain[i] for i in place.maps_before_cache)
        )
    )
    return _kept_apart(pipeline, changed, place.stages_after_cache, gone=place.maps_before_cache)


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


def _drop_unused(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
    changed = drop_unused_outputs(pipeline, stage)
    if changed is None:
        raise EditRefused(
            f"no map before {node} computes anything that {node} ignores and that Uncork can drop",
            "a map that ignores part of its input, after maps that compute that part without "
            "random numbers, state or Python",
            "keep it unchanged",
        )
    return changed


def _filter_first(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
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


def _shuffle_first(pipeline: Pipeline, node: Node, stage: int) -> tuple[int, Dataset]:
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


def _vectorize(pipeline: Pipeline, node: Node, stage: int) -> tuple[int, Dataset]:
    place = find_downstream_batch(pipeline, stage)
    batch = pipeline.stages[place]
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
    below = _kept_apart(pipeline, below, range(stage + 1, place), gone=gone)
    fields: dict[str, Any] = {"map_func": stacked.function}
    if is_inlined(node):  # it was for brief calls: those of a batch are others
        fields |= {"use_inter_op_parallelism": True, "force_synchronous": False}
    if node.parallelism not in (None, 1):
        # So many elements at once are not so many batches, which all would be in memory.
        fields["num_parallel_calls"] = tf.constant(tf.data.AUTOTUNE, tf.int64)
    return place, copy_with_fields(
        node.dataset, [rebuild_batch(below, batch)], kind_of(node.dataset), **fields
    )


def _inline(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
    if not can_run_inline(node):
        raise EditRefused(
            f"the thread that reads the elements cannot make the calls of {node} one after "
            "the other",
            "a map without Python, branches and loops that is not inline already; a parallel "
            "map also without random numbers and state, and with its order kept",
            "keep it unchanged",
        )
    changed = inline_map(node.inputs[0].dataset, parameter(node.dataset, "map_func"), node.dataset)
    above = find_next_downstream(pipeline.stages, stage)
    # TensorFlow fuses a map with the batch above it, and hands each call to a thread again.
    batched = above is not None and pipeline.stages[above].kind == "batch"
    return add_rewrite_barrier(changed) if batched else changed
