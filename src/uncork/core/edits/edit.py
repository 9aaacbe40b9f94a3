"""What to change, as data: a plan holds edits, never code.

Every edit says what it expects to find. Where that is not there, it is refused, not guessed.
"""

from __future__ import annotations

from typing import Literal

from uncork.core.base.record import Record
from uncork.core.edits.pipeline import PipelineEdit
from uncork.core.edits.step import StepEdit

# More threads than this wait for the interpreter, whatever they do beside it.
MAX_WORKERS = 8
# More processes than this are kept busy by no loader that one thread of the training hands on.
MAX_PROCESSES = 16
# Batches that are asked for ahead, for each thread: fewer would leave some of them idle.
PREFETCHED_BATCHES_PER_WORKER = 2
Guarantee = Literal["exact", "rounding", "resampled", "precision", "training"]
# From the strictest to the loosest; a plan promises the loosest of its steps.
GUARANTEES: tuple[Guarantee, ...] = ("exact", "rounding", "resampled", "precision", "training")


def find_loosest_guarantee(*guarantees: Guarantee) -> Guarantee:
    """The weakest of some promises; ``exact`` when there are none.

    Example:
        >>> find_loosest_guarantee("exact", "precision", "rounding")
        'precision'
    """
    return GUARANTEES[max((GUARANTEES.index(g) for g in guarantees), default=0)]


class LoaderWorkers(Record, tag="loader_workers", frozen=True, kw_only=True):
    """Let ``workers`` threads make the batches of a ``PyDataset``; they come in their order."""

    workers: int
    expected_digest: str


class LoaderProcesses(Record, tag="loader_processes", frozen=True, kw_only=True):
    """Let so many ``processes`` make the batches of a ``PyDataset``; they come in their order.

    Attributes:
        processes: How many.
        expected_digest: Digest of the loader's code and settings.
        is_random: It draws random numbers, each batch from states of its own.
    """

    processes: int
    expected_digest: str
    is_random: bool = False


class LoaderCache(Record, tag="loader_cache", frozen=True, kw_only=True):
    """Make each batch of a ``PyDataset`` once, and keep it; all together take so many bytes."""

    size_bytes: int
    expected_digest: str


class ArrayFeed(Record, tag="array_feed", frozen=True, kw_only=True):
    """Read the arrays of a ``fit`` through Keras's own pipeline, in one thread and not tuned."""


class ValidationInput(Record, tag="validation_input", frozen=True, kw_only=True):
    """Edit the pipeline of a ``fit``'s validation data, of this digest, by these edits in order."""

    edits: tuple[PipelineEdit, ...]
    expected_digest: str


class AsyncCheckpoint(Record, tag="async_checkpoint", frozen=True, kw_only=True):
    """Write the checkpoints of a ``fit`` in a thread, from copies of ``size_bytes``."""

    size_bytes: int


class IntraOpThreads(Record, tag="intra_op_threads", frozen=True, kw_only=True):
    """Start the script's process with so many ``threads`` for the work within one kernel."""

    threads: int


class KeepFreedMemory(Record, tag="keep_freed_memory", frozen=True, kw_only=True):
    """Start the script's process with an allocator that gives no memory back."""


class KerasBackend(Record, tag="keras_backend", frozen=True, kw_only=True):
    """Run the script on another Keras backend, of this ``backend_version``, from its start."""

    backend: Literal["jax"]
    backend_version: str


PyDatasetEdit = LoaderWorkers | LoaderProcesses | LoaderCache
LoaderEdit = PyDatasetEdit | ArrayFeed
# What a process is started with.
ProcessEdit = IntraOpThreads | KeepFreedMemory | KerasBackend
Edit = PipelineEdit | LoaderEdit | StepEdit | ValidationInput | AsyncCheckpoint | ProcessEdit


def select_validation_edits(edits: tuple[Edit, ...]) -> tuple[PipelineEdit, ...]:
    """Those of the validation's pipeline, in order."""
    found = (edit.edits for edit in edits if isinstance(edit, ValidationInput))
    return tuple(edit for edits_of_one in found for edit in edits_of_one)
