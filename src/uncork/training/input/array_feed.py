"""The pipeline that Keras reads arrays through, its batches cut in one thread and not tuned.

For ``fit(x, y)`` Keras makes a tf.data pipeline: the order of an epoch, cut into the indices of
each batch, and a parallel map that gathers their rows. A gather takes microseconds; handing it to
another thread, and the thread that tunes the number of such calls, take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from uncork.core.base.errors import EditRefused
from uncork.core.edits.edit import ArrayFeed, LoaderEdit
from uncork.core.edits.pipeline import AutotuneOff, InlineMap, PipelineEdit
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

_GATHERS: Final = "zip"

PipelineRewrite = Callable[[Pipeline], Any]


def has_array_feed(edits: tuple[LoaderEdit, ...]) -> bool:
    """Whether they are for arrays."""
    return any(isinstance(edit, ArrayFeed) for edit in edits)


def array_feed_edits(pipeline: Pipeline) -> tuple[PipelineEdit, ...]:
    """What the edit does to the pipeline that Keras made, each with the digest that it expects.

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
            "Keras makes another pipeline of these arrays than is known",
            "dense arrays, whose rows one map gathers",
            "leave them as they are",
        )
    inline = InlineMap(stage=gathers[0], expected_digest=pipeline.digest)
    return inline, AutotuneOff(expected_digest=apply_edit(pipeline, inline).digest)


def single_threaded_dataset(pipeline: Pipeline) -> Any:
    """The pipeline that Keras made, read so.

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
    """What Keras makes of arrays first inside the block is read otherwise: the training's own.

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
    """What Keras makes of arrays first inside the block is read in one thread.

    Args:
        on_refusal: Told why that cannot be, and then it is read as ever; raised unless given.
    """
    return rewrite_array_pipeline(single_threaded_dataset, on_refusal)


def _give_back(original: Any, ours: Any) -> None:
    """Unless somebody else has put something there since."""
    if ArrayDataAdapter.get_tf_dataset is ours:
        ArrayDataAdapter.get_tf_dataset = original
