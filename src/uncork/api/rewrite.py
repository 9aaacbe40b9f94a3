"""Edits of a plan that methods of ``tf.data`` cannot express, for ``Dataset.apply``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import tensorflow as tf

from uncork.core.base.errors import EditRefused, WrongUse
from uncork.core.edits.pipeline import (
    Cache,
    DecodeAndCrop,
    DrawFirst,
    DropUnused,
    FilterFirst,
    GatherLast,
    GeneratorChunks,
    InlineMap,
    ParallelInterleave,
    ParallelMap,
    PipelineEdit,
    ReadAhead,
    ShuffleFirst,
    SplitMap,
    StageEdit,
    VectorizeMap,
)
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.runtime.resume_state import continue_shuffles
from uncork.pipeline.transforms.apply import apply_edit

_EDITS: Final[dict[str, type[StageEdit]]] = {
    "cache": Cache,
    "decode_and_crop": DecodeAndCrop,
    "draw_first": DrawFirst,
    "drop_unused": DropUnused,
    "filter_first": FilterFirst,
    "generator_chunks": GeneratorChunks,
    "inline_map": InlineMap,
    "parallel_interleave": ParallelInterleave,
    "parallel_map": ParallelMap,
    "read_ahead": ReadAhead,
    "shuffle_first": ShuffleFirst,
    "split_map": SplitMap,
    "vectorize_map": VectorizeMap,
}
_GATHER: Final = "gather_last"


def rewrite(
    *edits: str, stage: int | None = None, **settings: int
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Rewrite the last stage of a dataset as a plan does; for ``Dataset.apply``.

    ``uncork diff`` writes it where no method of ``tf.data`` expresses an edit. For example, the
    edits ``"split_map", "cache"`` cut a map's function behind its deterministic part, and cache
    what this part gives, before any shuffle or repeat. The random part then draws the same numbers
    as in one function, from the same seeds.

    Args:
        edits: Names of edits in the order in which they are applied, each to the same stage:
            ``cache``, ``decode_and_crop``, ``draw_first``, ``drop_unused``, ``filter_first``,
            ``gather_last``, ``generator_chunks``, ``inline_map``, ``parallel_interleave``,
            ``parallel_map``, ``read_ahead``, ``shuffle_first``, ``split_map``, ``vectorize_map``.
        stage: Position of the stage, counted from the source as a plan counts; by default the last
            one, and for ``vectorize_map`` the map before the last batch.
        settings: Numbers that an edit needs: ``readers`` and ``elements_per_reader`` of
            ``read_ahead``, ``max_elements`` of ``generator_chunks``.

    Returns:
        A function that takes a dataset and returns the rewritten one. If an edit is not legal for
        a dataset, it says so on standard error and returns that dataset.

    Raises:
        WrongUse: There is no edit of this name, or it has no such setting.

    Example:
        >>> import tensorflow as tf
        >>> import uncork
        >>> def load(x):
        ...     return tf.exp(tf.cast(x, tf.float32)) + tf.random.uniform([])
        >>> data = tf.data.Dataset.range(9).shuffle(9).map(load)
        >>> data = data.apply(uncork.rewrite("split_map", "cache"))
        >>> [stage.kind for stage in uncork.explain(data, budget=0.1).record.stages]
        ['range', 'map', 'cache', 'shuffle', 'map']
    """
    for name in edits:
        _edit(name, 0, "", settings)

    def rewritten(dataset: tf.data.Dataset) -> tf.data.Dataset:
        pipeline = read_pipeline(dataset)
        position = _position(pipeline, edits) if stage is None else stage
        try:
            for name in edits:
                pipeline = apply_edit(pipeline, _edit(name, position, pipeline.digest, settings))
            return continue_shuffles(pipeline).dataset
        except EditRefused as refusal:
            sys.stderr.write(f"uncork: the dataset stays unmodified: {refusal}\n")
            return dataset

    return rewritten


def _position(pipeline: Pipeline, edits: tuple[str, ...]) -> int:
    """The last stage, or the last map where a map is to take the batches above it."""
    kinds = [place.node.kind for place in pipeline.stage_locations]
    if "vectorize_map" in edits and "map" in kinds:
        return len(kinds) - 1 - kinds[::-1].index("map")
    return len(kinds) - 1


def _edit(name: str, stage: int, digest: str, settings: dict[str, int]) -> PipelineEdit:
    """The edit of a name.

    Raises:
        WrongUse: There is none, or it has no such settings.
    """
    if name == _GATHER:
        return GatherLast(expected_digest=digest)
    if name not in _EDITS:
        known = ", ".join(sorted((*_EDITS, _GATHER)))
        raise WrongUse(f"there is no edit {name!r}", f"one of {known}", "check the name")
    kind = _EDITS[name]
    own = {n: v for n, v in settings.items() if n in kind.__struct_fields__}
    try:
        made = kind(stage=stage, expected_digest=digest, **own)
    except TypeError as error:
        raise WrongUse(f"{name}: {error}", "its settings", "see help(uncork.rewrite)") from error
    assert isinstance(made, PipelineEdit)
    return made
