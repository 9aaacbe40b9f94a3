"""Why an edit of a plan has no form in a script."""

from __future__ import annotations

from typing import Any, Final

from uncork.core.edits.edit import (
    ArrayFeed,
    AsyncCheckpoint,
    KerasBackend,
    LoaderCache,
    LoaderProcesses,
    LoaderWorkers,
)
from uncork.core.edits.pipeline import DiskCache, GeneratorCache, PyFunctionCache, Rebatch
from uncork.core.edits.step import (
    ArrayArguments,
    FlatUpdates,
    FusedUpdates,
    LargerBatch,
    LayersInInput,
    MapOnDevice,
    MicroBatches,
    PadArguments,
    PadLengths,
    RecomputeActivations,
    ReuseIterator,
    RowUpdates,
    TensorArguments,
    VectorizedMapFn,
)

_OWN_CODE: Final = (
    "before each training Uncork checks that the code still depends only on its arguments; a "
    "script would keep old answers after a change"
)
_KERAS: Final = "Keras and TensorFlow have no setting for it"
_LOADER: Final = "the class of the data decides whether it accepts such a setting"
_STEP: Final = "the arguments are converted where the loop calls its step, and not in one place"
REASONS: Final[dict[type[Any], str]] = {
    ArrayArguments: _STEP,
    ArrayFeed: "Keras creates the pipeline of arrays within fit",
    AsyncCheckpoint: "a callback of Uncork's writes the checkpoints",
    DiskCache: (
        "Uncork deletes its files after the training; cache(filename) would keep them, and read "
        "them after the data has changed"
    ),
    FlatUpdates: _KERAS,
    FusedUpdates: _KERAS,
    GeneratorCache: _OWN_CODE,
    KerasBackend: "other scripts that import this one would run on that backend, too",
    LargerBatch: "the batch size and the learning rate are yours to choose",
    LayersInInput: "the model that you save and predict with has to keep these layers",
    LoaderCache: _OWN_CODE,
    LoaderProcesses: _LOADER,
    LoaderWorkers: _LOADER,
    MapOnDevice: "the work would become part of the model, or of the loop",
    MicroBatches: "the training step itself has to be another one",
    PadArguments: _STEP,
    PadLengths: "the losses and metrics have to ignore the padding",
    PyFunctionCache: _OWN_CODE,
    Rebatch: "the batch size and the learning rate are yours to choose",
    RecomputeActivations: "the model itself has to be another one",
    ReuseIterator: _KERAS,
    RowUpdates: _KERAS,
    TensorArguments: _STEP,
    VectorizedMapFn: "tf.vectorized_map would take the place of tf.map_fn for all callers",
}


def describe_omission(edits: tuple[Any, ...], source_edit: str) -> str:
    r"""Why a step is not written, and how it is said by hand, on lines of its own.

    Example:
        >>> print(describe_omission((FlatUpdates(),), "a\n  .b()"))
        Keras and TensorFlow have no setting for it; by hand, for example:
            a
              .b()
    """
    reason = next((REASONS[type(e)] for e in edits if type(e) in REASONS), "no form is known")
    if not source_edit:
        return reason
    if "\n" not in source_edit.strip():
        return f"{reason}; by hand, for example: {source_edit.strip()}"
    lines = "\n".join(f"    {line}".rstrip() for line in source_edit.strip("\n").splitlines())
    return f"{reason}; by hand, for example:\n{lines}"
