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
from uncork.pipeline.ir.tree import Pipeline, read
from uncork.pipeline.transforms.apply import apply

_GATHERS: Final = "zip"

Rewrite = Callable[[Pipeline], Any]


def is_array_feed(edits: tuple[LoaderEdit, ...]) -> bool:
    """Whether they are for arrays."""
    return any(isinstance(edit, ArrayFeed) for edit in edits)


def edits_of_arrays(pipeline: Pipeline) -> tuple[PipelineEdit, ...]:
    """What the edit does to the pipeline that Keras made, each with the digest that it expects.

    Raises:
        EditRefused: It is another one than Keras is known to make.

    Example:
        >>> import numpy as np
        >>> adapter = ArrayDataAdapter(np.arange(9), batch_size=4, shuffle=True)
        >>> first, _ = edits_of_arrays(read(adapter.get_tf_dataset()))
        >>> type(first).__name__
        'InlineMap'
    """
    stages = [place.node for place in pipeline.places]
    gathers = [i for i, node in enumerate(stages[1:], 1) if stages[i - 1].kind == _GATHERS]
    if len(gathers) != 1 or stages[gathers[0]].kind != "map":
        raise EditRefused(
            "Keras makes another pipeline of these arrays than is known",
            "dense arrays, whose rows one map gathers",
            "leave them as they are",
        )
    inline = InlineMap(stage=gathers[0], expects=pipeline.digest)
    return inline, AutotuneOff(expects=apply(pipeline, inline).digest)


def in_one_thread(pipeline: Pipeline) -> Any:
    """The pipeline that Keras made, read so.

    Raises:
        EditRefused: It is another one than Keras is known to make.
    """
    for edit in edits_of_arrays(pipeline):
        pipeline = apply(pipeline, edit)
    return pipeline.dataset


@contextmanager
def arrays_through(
    rewrite: Rewrite, refuse: Callable[[EditRefused], None] | None = None
) -> Iterator[None]:
    """What Keras makes of arrays first inside the block is read otherwise: the training's own.

    Args:
        rewrite: Makes a dataset of the pipeline that Keras made.
        refuse: Told why that cannot be, and then it is read as ever; raised unless given.
    """
    original = ArrayDataAdapter.get_tf_dataset

    def get_tf_dataset(adapter: Any) -> Any:
        _give_back(original, get_tf_dataset)
        dataset = original(adapter)
        try:
            return rewrite(read(dataset))
        except EditRefused as refusal:
            if refuse is None:
                raise
            refuse(refusal)
            return dataset

    ArrayDataAdapter.get_tf_dataset = get_tf_dataset
    try:
        yield
    finally:
        _give_back(original, get_tf_dataset)


def arrays_in_one_thread(
    refuse: Callable[[EditRefused], None] | None = None,
) -> AbstractContextManager[None]:
    """What Keras makes of arrays first inside the block is read in one thread.

    Args:
        refuse: Told why that cannot be, and then it is read as ever; raised unless given.
    """
    return arrays_through(in_one_thread, refuse)


def _give_back(original: Any, ours: Any) -> None:
    """Unless somebody else has put something there since."""
    if ArrayDataAdapter.get_tf_dataset is ours:
        ArrayDataAdapter.get_tf_dataset = original
