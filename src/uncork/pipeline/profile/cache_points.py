"""What stages keep, or could keep: where a cache pays, and what a shuffle holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_fields import int_parameter
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import SplitMap
from uncork.core.evidence.stage import CachePoint, ShuffleBuffer
from uncork.pipeline.analysis.legality import (
    BATCH_KINDS,
    MOVABLE_KINDS,
    find_cache_placement,
    find_movable_maps,
)
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.profile.element_ratios import static_ratio
from uncork.pipeline.profile.probes import SAMPLED_ELEMENTS, count_elements, mean_element_bytes
from uncork.pipeline.profile.stage_measurement import StageMeasurement
from uncork.pipeline.runtime.subset import take_every_nth
from uncork.pipeline.transforms.apply import apply_edit

# A cache that spares less than this part of the pipeline's work is not worth its memory.
_WORTH: Final = 0.02
# What TensorFlow's cache takes for a tensor beside its values, and for each string in it: 1.2e6
# elements of 1 to 10 numbers and strings, TensorFlow 2.21.
_TENSOR_BYTES: Final = 185
_STRING_BYTES: Final = 24
# Elements, of which the first need not be like the others.
_MANY: Final = 4 * SAMPLED_ELEMENTS
# What they give can be told from how much they take.
_AS_MANY: Final = frozenset({
    "map", "batch", "padded_batch", "shuffle", "prefetch", "options", "restructure",
})  # fmt: skip


def find_cache_point(
    stages: Sequence[StageMeasurement], index: int, budget_s: float
) -> CachePoint | None:
    """What a cache after a stage would hold and spare; None where it is not legal or not worth it.

    Args:
        stages: Of the whole pipeline, their costs known.
        index: Of the stage. Of a map that draws after deterministic work, that work is cached.
        budget_s: Seconds for counting the elements.
    """
    stage = stages[index]
    pipeline, position = stage.location
    if stage.node.kind in MOVABLE_KINDS or stage.node.is_memory_cache:
        return None  # gives what the stage below gives; that one has the point
    if not _read_to_its_end(stages, index):
        return None  # so never complete
    drawing = stage.map_split is not None and not stage.map_split.has_deterministic_rest
    halved = drawing and stage.prefix_cpu_s is not None
    size = stage.prefix_bytes if halved else stage.bytes_per_element
    try:
        changed = (
            _split(pipeline, index - stages[stage.chain_start].first_index) if halved else pipeline
        )
        place = find_cache_placement(changed, position)
    except EditRefused:
        return None
    top = stages[stage.chain_start + place.upstream_stage]
    elements = _length(changed.stages[place.upstream_stage])
    if elements is None:
        elements = _counted(top, budget_s)
    kept = {
        *range(top.first_index, top.index + 1),
        *(stage.chain_start + i for i in place.maps_before_cache),
    }
    # Reading from the new cache costs what reading from an old one below did.
    spared = [stages[i] for i in kept if not stages[i].node.is_memory_cache]
    saved = sum(s.cpu_s_per_step for s in spared if not halved or s is not stage)
    if halved:
        saved += (stage.prefix_cpu_s or 0.0) * (stage.elements_per_step or 0.0)
    if not size or not elements or saved <= _WORTH * sum(s.cpu_s_per_step for s in stages):
        return None
    size, beside = _sizes(changed.stages[position], size, elements)
    # Each branch that reads it fills one of its own, until the first is complete.
    readers = sum(other.node.dataset is stage.node.dataset for other in stages)
    return CachePoint(
        element_count=elements,
        memory_bytes=elements * (size + beside) * readers,
        overhead_bytes=elements * beside * readers,
        saved_cpu_s_per_step=saved,
        placed_before=tuple(changed.stages[i].kind for i in place.stages_after_cache),
    )


def _sizes(node: Node, mean: int, elements: int) -> tuple[int, int]:
    """Bytes of an element's values, and what TensorFlow's cache takes beside them.

    Args:
        node: That gives it.
        mean: Bytes of the first elements' values, on average.
        elements: In one pass.
    """
    flat = tf.nest.flatten(node.dataset.element_spec, expand_composites=True)
    parts = [part for part in flat if isinstance(part, tf.TensorSpec)]
    own = 1 if node.kind in BATCH_KINDS else 0  # the last batch may be a smaller one
    shapes = [part.shape[own:] for part in parts]
    texts = [part.dtype == tf.string for part in parts]
    if elements > _MANY and (any(texts) or not all(s.is_fully_defined() for s in shapes)):
        # Data that lie in some order begin with the short ones, say.
        part = take_every_nth(read_pipeline(node.dataset), elements // SAMPLED_ELEMENTS)
        mean = (mean_element_bytes(part.dataset) if part else None) or mean
    strings = sum(p.shape.num_elements() or 1 for p in parts if p.dtype == tf.string)
    return mean, _TENSOR_BYTES * len(parts) + _STRING_BYTES * strings


def elements_per_pass(stage: StageMeasurement, budget_s: float) -> int | None:
    """Elements that a stage gives in one pass; None where there is no end, or no time to count."""
    known = int(stage.node.dataset.cardinality())
    if known == tf.data.UNKNOWN_CARDINALITY:
        return _counted(stage, budget_s) or None
    return known if known >= 0 else None


def measure_shuffle_buffer(stages: Sequence[StageMeasurement], index: int) -> ShuffleBuffer | None:
    """What a shuffle holds, and what it would hold below the maps; None where it must stay."""
    stage = stages[index]
    pipeline, position = stage.location
    maps = find_movable_maps(pipeline, position) if stage.node.kind == "shuffle" else ()
    if any(above.node.kind == "repeat" for above in islice(_above(stages, index), 1)):
        return None  # fused with it, the buffer is filled for the next pass while this one drains
    held = stages[stage.chain_start + maps[0] - 1].bytes_per_element if maps else None
    given = _given(stages, index)
    if held is None or not given:
        return None
    elements = int_parameter(stage.node.dataset, "buffer_size")
    there = _length(stage.node.inputs[0])
    return ShuffleBuffer(
        element_count=elements if there is None else min(elements, there),
        elements_per_pass=given,
        movable_maps=tuple(stage.chain_start + i for i in maps),
        bytes_per_element=held,
    )


def _split(pipeline: Pipeline, stage: int) -> Pipeline:
    """A pipeline or branch with a map cut in two; a branch is still one."""
    cut = apply_edit(pipeline, SplitMap(stage=stage, expected_digest=pipeline.digest))
    return Pipeline(cut.root, pipeline.parent)


def _counted(stage: StageMeasurement, budget_s: float) -> int:
    """Elements of one pass; 0 when counting takes too long, or for ever.

    Counted where they begin to be as many as they are: lines are read sooner than they are parsed.
    """
    ratio = 1.0
    while stage.node.kind in _AS_MANY and len(stage.input_stages) == 1:
        ratio *= static_ratio(stage.node) or 1.0
        (stage,) = stage.input_stages
    if int(stage.node.dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
        return 0
    return math.ceil((count_elements(stage.dataset, budget_s=budget_s) or 0) / ratio)


def _read_to_its_end(stages: Sequence[StageMeasurement], index: int) -> bool:
    """Every pass over the whole takes all that a stage gives, as far as that is known."""
    stage = stages[index]
    length = _length(stage.node)
    for above in _above(stages, index):
        most = _most_taken(above, index)
        if most == math.inf:
            continue
        if not (length and stage.elements_per_step and above.elements_per_step):
            return False
        taken = most * stage.elements_per_step / above.elements_per_step
        # Only who asks for one more meets the end; a zip does.
        if taken < length or (taken == length and above.node.kind != "zip"):
            return False
    return True


def _most_taken(above: StageMeasurement, index: int) -> float:
    """How many elements a stage gives before it ends a pass by itself; 0 where that is unknown."""
    if above.node.kind == "take":
        told = int_parameter(above.node.dataset, "count")
        return math.inf if told < 0 else told
    if above.node.kind in ("take_while", "choose"):
        return 0.0
    if above.node.kind != "zip":
        return math.inf
    others = [b.node for b in above.input_stages if not b.first_index <= index <= b.index]
    endless = [int(node.dataset.cardinality()) == tf.data.INFINITE_CARDINALITY for node in others]
    lengths = [math.inf if e else _length(n) or 0.0 for n, e in zip(others, endless, strict=True)]
    return min(lengths, default=math.inf)


def _above(stages: Sequence[StageMeasurement], index: int) -> Iterator[StageMeasurement]:
    """All that is made from a stage, the next one first."""
    return (stage for stage in stages[index + 1 :] if stage.first_index <= index)


def _given(stages: Sequence[StageMeasurement], index: int) -> int | None:
    """Elements that a stage gives in one pass; a ``take`` above may end it early."""
    least = _length(stages[index].node)
    for above in _above(stages, index):
        if above.node.kind == "repeat":
            break  # a pass ends there, and the next one begins
        taken = _length(above.node) if above.node.kind == "take" else None
        per_step, each = stages[index].elements_per_step, above.elements_per_step
        if taken is not None and per_step and each:
            wanted = math.ceil(taken * per_step / each)
            least = wanted if least is None else min(least, wanted)
    return least


def _length(node: Node) -> int | None:
    elements = int(node.dataset.cardinality())
    return elements if elements >= 0 else None
