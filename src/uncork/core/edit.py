"""What to change, as data: a plan holds edits, never code.

Every edit says what it expects to find. Where that is not there, it is refused, not guessed.
"""

from __future__ import annotations

from typing import Literal

from uncork.core.record import Record

# More threads than this wait for the interpreter, whatever they do beside it.
MOST_WORKERS = 8
# Batches that are asked for ahead, for each thread: fewer would leave some of them idle.
AHEAD = 2

# Of layers, in Keras's words: what they compute in. Their weights are float32.
Precision = Literal["mixed_bfloat16", "mixed_float16", "float32"]
Guarantee = Literal["exact", "rounding", "resampled", "precision", "training"]

# From the strictest to the loosest; a plan promises the loosest of its steps.
GUARANTEES: tuple[Guarantee, ...] = ("exact", "rounding", "resampled", "precision", "training")


def loosest(*guarantees: Guarantee) -> Guarantee:
    """The weakest of some promises; ``exact`` when there are none.

    Example:
        >>> loosest("exact", "precision", "rounding")
        'precision'
    """
    return GUARANTEES[max((GUARANTEES.index(g) for g in guarantees), default=0)]


class SplitMap(Record, tag="split_map", frozen=True, kw_only=True):
    """Cut the map at ``stage`` in two: what repeats itself, in parallel, and what is random.

    Where all of it repeats itself, the second part is what only makes its elements larger.
    """

    stage: int
    expects: str


class Cache(Record, tag="cache", frozen=True, kw_only=True):
    """Keep the elements after ``stage`` in memory; placed below any shuffle or repeat above it.

    Attributes:
        bytes: That it will take; 0 where that is not known.
    """

    stage: int
    expects: str
    bytes: int = 0


class DiskCache(Record, tag="disk_cache", frozen=True, kw_only=True):
    """Keep the elements after ``stage`` in files, placed like those of a :class:`Cache`.

    Attributes:
        bytes: What the elements take; 0 where that is not known.
        folder: Where each process makes a folder of its own; ``""`` where there is none, and what
            is to be kept is made anew.
    """

    stage: int
    expects: str
    bytes: int = 0
    folder: str = ""


class ParallelMap(Record, tag="parallel_map", frozen=True, kw_only=True):
    """Let the runtime run the serial map at ``stage`` on several elements at once, order kept."""

    stage: int
    expects: str


class DropUnused(Record, tag="drop_unused", frozen=True, kw_only=True):
    """Let the maps below the map at ``stage`` make only what it looks at."""

    stage: int
    expects: str


class FilterFirst(Record, tag="filter_first", frozen=True, kw_only=True):
    """Move the filter, shard or skip at ``stage`` below the maps that do no work for it."""

    stage: int
    expects: str


class ShuffleFirst(Record, tag="shuffle_first", frozen=True, kw_only=True):
    """Move the maps directly below the shuffle at ``stage`` above it: it then holds their input."""

    stage: int
    expects: str


class VectorizeMap(Record, tag="vectorize_map", frozen=True, kw_only=True):
    """Batch first: the map at ``stage`` takes the whole batch, its function turned to stacks."""

    stage: int
    expects: str


class DrawFirst(Record, tag="draw_first", frozen=True, kw_only=True):
    """Draw the random numbers of a serial map in a map of their own; the work then in parallel."""

    stage: int
    expects: str


class InlineMap(Record, tag="inline_map", frozen=True, kw_only=True):
    """Run the map at ``stage`` in the thread that asks for its elements, one after the other."""

    stage: int
    expects: str


class ParallelInterleave(Record, tag="parallel_interleave", frozen=True, kw_only=True):
    """Read what a serial interleave opens, its readers in threads of their own, in order."""

    stage: int
    expects: str


class LessAhead(Record, tag="less_ahead", frozen=True, kw_only=True):
    """Let the prefetch or parallel map at ``stage`` prepare only as much ahead as is of use."""

    stage: int
    expects: str


class Prefetch(Record, tag="prefetch", frozen=True, kw_only=True):
    """Prepare batches while the device works on the one before."""

    expects: str


class Rebatch(Record, tag="rebatch", frozen=True, kw_only=True):
    """Put ``times`` batches together at the end of the pipeline, to ``batch_size`` samples."""

    times: int
    batch_size: int
    expects: str


class AutotuneOff(Record, tag="autotune_off", frozen=True, kw_only=True):
    """Run without tf.data's autotuner, which can hold up the end of an epoch."""

    expects: str


class GatherLast(Record, tag="gather_last", frozen=True, kw_only=True):
    """Let numbers of rows go through the pipeline, and gather the rows of each batch at its end."""

    expects: str


class PyFunctionCache(Record, tag="py_function_cache", frozen=True, kw_only=True):
    """Call the Python functions of the map at ``stage`` once for each thing they are asked.

    All answers take so many ``bytes``; the functions' ``code`` has this digest.
    """

    stage: int
    expects: str
    bytes: int
    code: str


class GeneratorCache(Record, tag="generator_cache", frozen=True, kw_only=True):
    """Run the Python generator at ``stage`` once, and keep what it yields: so many ``bytes``.

    Its ``code`` has this digest.
    """

    stage: int
    expects: str
    bytes: int
    code: str


class GeneratorChunks(Record, tag="generator_chunks", frozen=True, kw_only=True):
    """Take up to ``elements`` of the Python generator at ``stage`` over into TensorFlow at once."""

    stage: int
    expects: str
    elements: int


class TfFunction(Record, tag="tf_function", frozen=True, kw_only=True):
    """Run a step that runs op by op as a ``tf.function``.

    All code of the user's that the step runs has this digest. The arguments that are called
    ``numbers`` are given to it as tensors where they are Python numbers.
    """

    code: str
    numbers: tuple[str, ...] = ()


class ReduceRetracing(Record, tag="reduce_retracing", frozen=True, kw_only=True):
    """Trace the ``tf.function`` that a loop calls, of this ``code``, once for all shapes.

    Dimensions in which two calls differ are left open.
    """

    code: str


class TensorArguments(Record, tag="tensor_arguments", frozen=True, kw_only=True):
    """Hand Python numbers over as tensors to the ``tf.function`` of a loop, of this ``code``.

    ``names`` are those of the arguments.
    """

    code: str
    names: tuple[str, ...]


class ReuseIterator(Record, tag="reuse_iterator", frozen=True, kw_only=True):
    """Let ``fit``, ``evaluate`` and ``predict`` read arrays through a kept iterator."""


class LayersInInput(Record, tag="layers_in_input", frozen=True, kw_only=True):
    """Run the ``layers`` that the model begins with, by name, in the input pipeline.

    Where one of them ``draws`` random numbers, for one batch after the other.
    """

    layers: tuple[str, ...]
    draws: bool = False


class MapOnDevice(Record, tag="map_on_device", frozen=True, kw_only=True):
    """Do the last maps of the input pipeline in the training step, on the device that trains.

    What they do to a whole batch has this digest. Of several such edits the last one counts. The
    batches of a loop of the user's own are made before its step, on the device of this
    ``placement``, in TensorFlow's words.
    """

    expects: str
    placement: str = ""


class StepsPerExecution(Record, tag="steps_per_execution", frozen=True, kw_only=True):
    """Run ``steps`` training steps for each call from Python."""

    steps: int


class LargerBatch(Record, tag="larger_batch", frozen=True, kw_only=True):
    """Train on batches ``times`` as large, at the learning rate times ``rate``.

    A tf.data pipeline gives such batches by :class:`Rebatch`; arrays are cut into them.
    """

    times: int
    rate: float


class MicroBatches(Record, tag="micro_batches", frozen=True, kw_only=True):
    """Go through each batch in ``parts``, one after the other, and update once."""

    parts: int


class FlatUpdates(Record, tag="flat_updates", frozen=True, kw_only=True):
    """Update all small weights by one run of the optimizer's own update, laid end to end."""


class FusedUpdates(Record, tag="fused_updates", frozen=True, kw_only=True):
    """Update each weight by one kernel of TensorFlow's, on the state as Keras keeps it."""


class RowUpdates(Record, tag="row_updates", frozen=True, kw_only=True):
    """Read and update only those rows of tables of embeddings that a batch looks up."""


class MapsAtOnce(Record, tag="maps_at_once", frozen=True, kw_only=True):
    """Answer what the training step asks of ``tf.map_fn`` for all elements at once.

    In a loop of the user's own the step is a function, whose ``code`` has this digest.
    """

    code: str = ""


class JitCompile(Record, tag="jit_compile", frozen=True, kw_only=True):
    """Compile the training step with XLA.

    In a loop of the user's own the step is a function, whose ``code`` has this digest.
    """

    code: str = ""


class JitCompileOff(Record, tag="jit_compile_off", frozen=True, kw_only=True):
    """Run the training step on TensorFlow's own kernels, where the script asks for XLA.

    In a loop of the user's own the step is a function, whose ``code`` has this digest.
    """

    code: str = ""


class DtypePolicy(Record, tag="dtype_policy", frozen=True, kw_only=True):
    """Compute in another dtype; ``keep`` names layers that stay as they are.

    In a loop of the user's own the step is a function, whose ``code`` has this digest.
    """

    policy: Precision
    keep: tuple[str, ...] = ()
    code: str = ""


class LoaderWorkers(Record, tag="loader_workers", frozen=True, kw_only=True):
    """Let ``workers`` threads make the batches of a ``PyDataset``; they come in their order."""

    workers: int
    expects: str


class LoaderCache(Record, tag="loader_cache", frozen=True, kw_only=True):
    """Make each batch of a ``PyDataset`` once, and keep it; all together take so many bytes."""

    bytes: int
    expects: str


class ArrayFeed(Record, tag="array_feed", frozen=True, kw_only=True):
    """Read the arrays of a ``fit`` through Keras's own pipeline, in one thread and not tuned."""


StageEdit = (
    SplitMap
    | Cache
    | DiskCache
    | DropUnused
    | FilterFirst
    | ShuffleFirst
    | VectorizeMap
    | DrawFirst
    | InlineMap
    | ParallelMap
    | ParallelInterleave
    | LessAhead
    | PyFunctionCache
    | GeneratorCache
    | GeneratorChunks
)
PipelineEdit = StageEdit | Prefetch | AutotuneOff | Rebatch | GatherLast


class ValidationInput(Record, tag="validation_input", frozen=True, kw_only=True):
    """Edit the pipeline of a ``fit``'s validation data, of this digest, by these edits in order."""

    edits: tuple[PipelineEdit, ...]
    expects: str


class AsyncCheckpoint(Record, tag="async_checkpoint", frozen=True, kw_only=True):
    """Write the checkpoints of a ``fit`` in a thread, from copies that take so many ``bytes``."""

    bytes: int


class IntraOpThreads(Record, tag="intra_op_threads", frozen=True, kw_only=True):
    """Start the script's process with so many ``threads`` for the work within one kernel."""

    threads: int


class KerasBackend(Record, tag="keras_backend", frozen=True, kw_only=True):
    """Run the script on another backend of Keras's, of this ``release``, from its start on."""

    backend: Literal["jax"]
    release: str


# Of these, what has another function traced in the place of a loop's own.
FunctionEdit = (
    TensorArguments | ReduceRetracing | MapsAtOnce | JitCompile | JitCompileOff | DtypePolicy
)
StepEdit = (
    TfFunction
    | FunctionEdit
    | ReuseIterator
    | LayersInInput
    | MapOnDevice
    | StepsPerExecution
    | FlatUpdates
    | FusedUpdates
    | RowUpdates
    | LargerBatch
    | MicroBatches
)
PyDatasetEdit = LoaderWorkers | LoaderCache
LoaderEdit = PyDatasetEdit | ArrayFeed
# What a process is started with.
ProcessEdit = IntraOpThreads | KerasBackend
Edit = PipelineEdit | LoaderEdit | StepEdit | ValidationInput | AsyncCheckpoint | ProcessEdit


def is_graph(edits: tuple[StepEdit, ...]) -> bool:
    """Whether they make a step that runs op by op a ``tf.function``."""
    return any(isinstance(edit, TfFunction) for edit in edits)


def batches_in_one(edits: tuple[StepEdit, ...]) -> int:
    """How many of the script's batches a step trains on.

    Example:
        >>> batches_in_one((LargerBatch(times=4, rate=2.0),)), batches_in_one(())
        (4, 1)
    """
    return next((edit.times for edit in edits if isinstance(edit, LargerBatch)), 1)


def on_device(edits: tuple[StepEdit, ...]) -> MapOnDevice | None:
    """Which of the input pipeline's last maps the step does; of several edits the last one says."""
    return next((edit for edit in reversed(edits) if isinstance(edit, MapOnDevice)), None)


def of_function(edits: tuple[StepEdit, ...]) -> tuple[FunctionEdit, ...]:
    """The edits that have another function traced in the place of a loop's own, in order."""
    return tuple(edit for edit in edits if isinstance(edit, FunctionEdit))


def of_validation(edits: tuple[Edit, ...]) -> tuple[PipelineEdit, ...]:
    """Those of the validation's pipeline, in order."""
    found = (edit.edits for edit in edits if isinstance(edit, ValidationInput))
    return tuple(edit for edits_of_one in found for edit in edits_of_one)
