"""Edits and guarantees in words."""

from __future__ import annotations

from typing import Final

import msgspec

from uncork.core.base.errors import shorten_list
from uncork.core.edits.edit import (
    ArrayFeed,
    AsyncCheckpoint,
    Edit,
    Guarantee,
    IntraOpThreads,
    KeepFreedMemory,
    KerasBackend,
    LoaderCache,
    LoaderProcesses,
    LoaderWorkers,
    ValidationInput,
)
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
    Prefetch,
    PyFunctionCache,
    ReadAhead,
    Rebatch,
    ShuffleFirst,
    SplitMap,
    VectorizeMap,
)
from uncork.core.edits.step import (
    ArrayArguments,
    DtypePolicy,
    FlatUpdates,
    FusedUpdates,
    JitCompile,
    JitCompileOff,
    LargerBatch,
    LayersInInput,
    MapOnDevice,
    MicroBatches,
    PadArguments,
    PadLengths,
    RecomputeActivations,
    ReduceRetracing,
    ReuseIterator,
    RowUpdates,
    StepsPerExecution,
    TensorArguments,
    TfFunction,
    VectorizedMapFn,
)

GUARANTEE_TEXTS: Final[dict[Guarantee, str]] = {
    "exact": "same elements, same order, same weights, bit for bit",
    "rounding": "same mathematics, other rounding",
    "resampled": "same distribution, other random draws",
    "precision": "another precision inside, same training to the noise",
    "training": "another training, with your consent: no worse on samples laid aside",
}

EDIT_TEXTS: Final[dict[type[Edit], str]] = {
    SplitMap: "split the map at stage {stage}: first what repeats itself, then the rest",
    Cache: "keep the elements after stage {stage} in memory",
    DiskCache: "keep the elements after stage {stage} in files in {folder}",
    DropUnused: "make below stage {stage} only what it looks at",
    DecodeAndCrop: "decode at stage {stage} only what is cropped from each JPEG image",
    FilterFirst: "drop elements at stage {stage} before the maps below it, not after",
    ShuffleFirst: "shuffle at stage {stage} before the maps below it, not after",
    VectorizeMap: "call the map at stage {stage} once for a whole batch",
    ParallelMap: "run the map at stage {stage} on several elements at once, order kept",
    DrawFirst: "draw what the map at stage {stage} goes by, then do its work on several elements",
    InlineMap: "run the map at stage {stage} in the thread that asks for its elements",
    ParallelInterleave: "read the inputs of stage {stage} side by side, order kept",
    ReadAhead: (
        "read {readers} inputs of stage {stage} side by side, and hold "
        "{elements_per_reader} of each"
    ),
    LessAhead: "leave to TensorFlow how much stage {stage} prepares ahead",
    Prefetch: "prepare batches while the device works on the one before",
    Rebatch: "put {batch_multiplier} batches together at the end, to {batch_size} samples",
    GatherLast: "let numbers of rows go through the pipeline, and gather the rows at its end",
    AutotuneOff: "run without tf.data's autotuner",
    PyFunctionCache: "call the Python code of the map at stage {stage} once for each element",
    GeneratorCache: "run the generator at stage {stage} once and keep in memory what it yields",
    GeneratorChunks: (
        "take {max_elements} elements at a time over from the generator at stage {stage}"
    ),
    ArrayFeed: "cut the batches of the arrays in the thread that reads them, without the autotuner",
    LoaderCache: "make each batch once and keep it in memory",
    LoaderProcesses: "let {processes} processes make the batches, handed over in their order",
    LoaderWorkers: "let {workers} threads make the batches, handed over in their order",
    TfFunction: "run the training step as a tf.function",
    TensorArguments: "hand {argument_names} to the training step as tensors",
    ArrayArguments: (
        "copy {argument_names} into a tensor only where it holds other numbers than before"
    ),
    ReduceRetracing: "trace the training step for all shapes at once",
    ReuseIterator: "let fit, evaluate and predict read arrays through an iterator that is kept",
    LayersInInput: "run {layer_names} in the input pipeline, not in the training step",
    MapOnDevice: "do the last maps of the input pipeline in the training step, on its device",
    PadArguments: "fill arguments of the training step up, to lengths of multiples of {multiple}",
    PadLengths: "fill batches up, so that their lengths are multiples of {multiple}",
    StepsPerExecution: "run {steps} training steps for each call from Python",
    LargerBatch: (
        "train on {batch_multiplier} batches in one, the learning rate times "
        "{learning_rate_multiplier:.3g}"
    ),
    FlatUpdates: "update all small weights as one vector, by the optimizer's own update",
    MicroBatches: "go through each batch in parts, and update once",
    RecomputeActivations: "run the model again for the backward pass, in {segments} segments",
    FusedUpdates: "update each weight by one kernel of TensorFlow's",
    RowUpdates: "read and update only those rows of tables that a batch looks up",
    VectorizedMapFn: "run tf.map_fn over all elements at once",
    JitCompile: "compile the training step with XLA",
    JitCompileOff: "run the training step without XLA",
    AsyncCheckpoint: "write checkpoints in a thread, from copies, while the training goes on",
    IntraOpThreads: "run each kernel on at most {threads} thread(s)",
    KeepFreedMemory: "keep memory that is freed, and hand it out again",
    KerasBackend: "run on Keras's {backend} backend",
    DtypePolicy: "compute in {policy}",
    ValidationInput: "for the validation data: {parts}",
}


def describe_edit(edit: Edit) -> str:
    """One edit as a sentence.

    Example:
        >>> describe_edit(StepsPerExecution(steps=32))
        'run 32 training steps for each call from Python'
    """
    if isinstance(edit, ValidationInput):
        parts = "; ".join(map(describe_edit, edit.edits))
        return EDIT_TEXTS[ValidationInput].format(parts=parts)
    values = msgspec.structs.asdict(edit)
    said = EDIT_TEXTS[type(edit)].format_map({name: _said(value) for name, value in values.items()})
    kept = _said(edit.float32_layers) if isinstance(edit, DtypePolicy) else ""
    return f"{said}, but not in {kept}" if kept else said


def _said(value: object) -> object:
    """Names as a list; of many the first, and how many more."""
    if not isinstance(value, tuple):
        return value
    return shorten_list([str(name) for name in value])
