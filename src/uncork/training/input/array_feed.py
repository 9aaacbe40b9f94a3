"""Keras's pipeline for arrays, read in one thread and without autotuning.

For ``fit(x, y)`` Keras makes a tf.data pipeline: the order of an epoch, cut into the indices of
each batch, and a parallel map that gathers their rows. A gather takes microseconds; handing it to
another thread, and the thread that tunes the number of such calls, take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from uncork.compat.keras3.data_adapters import ArrayDataAdapter
from uncork.core.base.errors import EditRefused
from uncork.core.edits.edit import ArrayFeed, LoaderEdit
from uncork.core.edits.pipeline import AutotuneOff, InlineMap, PipelineEdit
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

_GATHERS: Final = "zip"

PipelineRewrite = Callable[[Pipeline], Any]


def has_array_feed(edits: tuple[LoaderEdit, ...]) -> bool:
    """Whether one of the edits changes how arrays are read."""
    return any(isinstance(edit, ArrayFeed) for edit in edits)


def array_feed_edits(pipeline: Pipeline) -> tuple[PipelineEdit, ...]:
    """The pipeline edits that read Keras's pipeline in one thread, each with its expected digest.

    Raises:
        EditRefused: It is another one than Keras is known to make.

    Example:
        >>> import numpy as np
        >>> adapter = ArrayDataAdapter(np.arange(9), batch_size=4, shuffle=True)
        >>> first, _ = array_feed_edits(read_pipeline(adapter.get_tf_dataset()))
        >>> type(first).__name__
        'InlineMap'
    """
    stages = [place.node for place in pipeline.stage_locations]
    gathers = [i for i, node in enumerate(stages[1:], 1) if stages[i - 1].kind == _GATHERS]
    if len(gathers) != 1 or stages[gathers[0]].kind != "map":
        raise EditRefused(
            "Uncork does not know the pipeline that Keras builds from these arrays",
            "dense arrays whose rows are gathered by one map",
            "keep the arrays unchanged",
        )
    inline = InlineMap(stage=gathers[0], expected_digest=pipeline.digest)
    return inline, AutotuneOff(expected_digest=apply_edit(pipeline, inline).digest)


def single_threaded_dataset(pipeline: Pipeline) -> Any:
    """The pipeline that Keras built, read in one thread.

    Raises:
        EditRefused: It is another one than Keras is known to make.
    """
    for edit in array_feed_edits(pipeline):
        pipeline = apply_edit(pipeline, edit)
    return pipeline.dataset


@contextmanager
def rewrite_array_pipeline(
    rewrite: PipelineRewrite, on_refusal: Callable[[EditRefused], None] | None = None
) -> Iterator[None]:
    """Rewrite the first pipeline that Keras builds from arrays inside the block: the training's.

    Args:
        rewrite: Makes a dataset of the pipeline that Keras made.
        on_refusal: Told why that cannot be, and then it is read as ever; raised unless given.
    """
    original = ArrayDataAdapter.get_tf_dataset

    def get_tf_dataset(adapter: Any) -> Any:
        _give_back(original, get_tf_dataset)
        dataset = original(adapter)
        try:
            return rewrite(read_pipeline(dataset))
        except EditRefused as refusal:
            if on_refusal is None:
                raise
            on_refusal(refusal)
            return dataset

    ArrayDataAdapter.get_tf_dataset = get_tf_dataset
    try:
        yield
    finally:
        _give_back(original, get_tf_dataset)


def read_arrays_in_one_thread(
    on_refusal: Callable[[EditRefused], None] | None = None,
) -> AbstractContextManager[None]:
    """Read the first pipeline that Keras builds from arrays inside the block in one thread.

    Args:
        on_refusal: Told why that cannot be, and then it is read as ever; raised unless given.
    """
    return rewrite_array_pipeline(single_threaded_dataset, on_refusal)


def _give_back(original: Any, ours: Any) -> None:
    """Restore Keras's method, unless another one has replaced ours since."""
    if ArrayDataAdapter.get_tf_dataset is ours:
        ArrayDataAdapter.get_tf_dataset = original
