"""What to change in an input pipeline, as data (see :mod:`uncork.core.edits.edit`)."""

from __future__ import annotations

from uncork.core.base.record import Record


class StageEdit(Record, frozen=True, kw_only=True):
    """An edit of one stage: the base of most.

    Attributes:
        stage: The stage's position among all of the pipeline's.
        expected_digest: Digest of the pipeline that the edit was made for.
    """

    stage: int
    expected_digest: str


class SplitMap(StageEdit, tag="split_map", frozen=True, kw_only=True):
    """Cut the map at ``stage`` in two: what repeats itself, in parallel, and what is random.

    Where all of it repeats itself, the second part is what only makes its elements larger.
    """


class Cache(StageEdit, tag="cache", frozen=True, kw_only=True):
    """Keep the elements after ``stage`` in memory; placed below any shuffle or repeat above it.

    Attributes:
        size_bytes: That it will take; 0 where that is not known.
    """

    size_bytes: int = 0


class DiskCache(StageEdit, tag="disk_cache", frozen=True, kw_only=True):
    """Keep the elements after ``stage`` in files, placed like those of a :class:`Cache`.

    Attributes:
        size_bytes: What the elements take; 0 where that is not known.
        folder: Where each process makes a folder of its own; ``""`` where there is none, and what
            is to be kept is made anew.
    """

    size_bytes: int = 0
    folder: str = ""


class ParallelMap(StageEdit, tag="parallel_map", frozen=True, kw_only=True):
    """Let the runtime run the serial map at ``stage`` on several elements at once, order kept."""


class DropUnused(StageEdit, tag="drop_unused", frozen=True, kw_only=True):
    """Let the maps below the map at ``stage`` make only what it looks at."""


class DecodeAndCrop(StageEdit, tag="decode_and_crop", frozen=True, kw_only=True):
    """Decode of each JPEG image that the map at ``stage`` crops only what it crops from it."""


class FilterFirst(StageEdit, tag="filter_first", frozen=True, kw_only=True):
    """Move the filter, shard or skip at ``stage`` below the maps that do no work for it."""


class ShuffleFirst(StageEdit, tag="shuffle_first", frozen=True, kw_only=True):
    """Move the maps directly below the shuffle at ``stage`` above it: it then holds their input."""


class VectorizeMap(StageEdit, tag="vectorize_map", frozen=True, kw_only=True):
    """Batch first: the map at ``stage`` takes the whole batch, its function turned to stacks."""


class DrawFirst(StageEdit, tag="draw_first", frozen=True, kw_only=True):
    """Draw the random numbers of a serial map in a map of their own; the work then in parallel."""


class InlineMap(StageEdit, tag="inline_map", frozen=True, kw_only=True):
    """Run the map at ``stage`` in the thread that asks for its elements, one after the other."""


class ParallelInterleave(StageEdit, tag="parallel_interleave", frozen=True, kw_only=True):
    """Read what a serial interleave opens, its readers in threads of their own, in order."""


class ReadAhead(StageEdit, tag="read_ahead", frozen=True, kw_only=True):
    """Read ``readers`` inputs of ``stage`` in parallel, ``elements_per_reader`` of each, in order.

    The stage goes through one input after the other. What is held takes so many ``size_bytes``.
    """

    readers: int
    elements_per_reader: int
    size_bytes: int = 0


class LessAhead(StageEdit, tag="less_ahead", frozen=True, kw_only=True):
    """Let the prefetch or parallel map at ``stage`` prepare only as much ahead as is of use."""


class Prefetch(Record, tag="prefetch", frozen=True, kw_only=True):
    """Prepare batches while the device works on the one before."""

    expected_digest: str


class Rebatch(Record, tag="rebatch", frozen=True, kw_only=True):
    """Join ``batch_multiplier`` batches at the end of the pipeline, to ``batch_size`` samples."""

    batch_multiplier: int
    batch_size: int
    expected_digest: str


class AutotuneOff(Record, tag="autotune_off", frozen=True, kw_only=True):
    """Run without tf.data's autotuner, which can hold up the end of an epoch."""

    expected_digest: str


class GatherLast(Record, tag="gather_last", frozen=True, kw_only=True):
    """Let numbers of rows go through the pipeline, and gather the rows of each batch at its end."""

    expected_digest: str


class PyFunctionCache(StageEdit, tag="py_function_cache", frozen=True, kw_only=True):
    """Call the Python functions of the map at ``stage`` once for each thing they are asked.

    All answers take so many ``size_bytes``; the functions' ``code_digest`` has this digest.
    """

    size_bytes: int
    code_digest: str


class GeneratorCache(StageEdit, tag="generator_cache", frozen=True, kw_only=True):
    """Run the Python generator at ``stage`` once, and keep what it yields: so many ``size_bytes``.

    Its ``code_digest`` has this digest.
    """

    size_bytes: int
    code_digest: str


class GeneratorChunks(StageEdit, tag="generator_chunks", frozen=True, kw_only=True):
    """Pass up to ``max_elements`` of the Python generator at ``stage`` to TensorFlow at once."""

    max_elements: int


PipelineEdit = (
    SplitMap
    | Cache
    | DiskCache
    | DropUnused
    | DecodeAndCrop
    | FilterFirst
    | ShuffleFirst
    | VectorizeMap
    | DrawFirst
    | InlineMap
    | ParallelMap
    | ParallelInterleave
    | ReadAhead
    | LessAhead
    | PyFunctionCache
    | GeneratorCache
    | GeneratorChunks
    | Prefetch
    | AutotuneOff
    | Rebatch
    | GatherLast
)
