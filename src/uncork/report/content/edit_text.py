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
    "rounding": "same mathematics, different rounding",
    "resampled": "same distribution, different random numbers",
    "precision": "different precision inside, same training within its noise",
    "training": "a different training, opt-in: no worse on held-out samples",
}

EDIT_TEXTS: Final[dict[type[Edit], str]] = {
    SplitMap: "split the map at stage {stage} into its deterministic part and the rest",
    Cache: "cache the elements after stage {stage} in memory",
    DiskCache: "cache the elements after stage {stage} in files in {folder}",
    DropUnused: "compute upstream of stage {stage} only what it uses",
    DecodeAndCrop: "decode at stage {stage} only the crop of each JPEG image",
    FilterFirst: "drop elements at stage {stage} before the maps upstream of it, not after them",
    ShuffleFirst: "shuffle at stage {stage} before the maps upstream of it, not after them",
    VectorizeMap: "vectorize the map at stage {stage} over a whole batch",
    ParallelMap: "run the map at stage {stage} in parallel, in the same order",
    DrawFirst: (
        "sample the random numbers of the map at stage {stage} first, then do its work in parallel"
    ),
    InlineMap: "run the map at stage {stage} in the thread that requests its elements",
    ParallelInterleave: "read the inputs of stage {stage} in parallel, in the same order",
    ReadAhead: (
        "read {readers} inputs of stage {stage} in parallel, and buffer {elements_per_reader} "
        "elements of each"
    ),
    LessAhead: "let TensorFlow choose how much stage {stage} prefetches",
    Prefetch: "prepare batches while the device works on the previous one",
    Rebatch: "combine {batch_multiplier} batches at the end, to {batch_size} samples",
    GatherLast: "pass row indices through the pipeline, and gather the rows at its end",
    AutotuneOff: "run without tf.data's autotuner",
    PyFunctionCache: "call the Python code of the map at stage {stage} only once for each element",
    GeneratorCache: "run the generator at stage {stage} once, and cache what it yields in memory",
    GeneratorChunks: "take {max_elements} elements at a time from the generator at stage {stage}",
    ArrayFeed: (
        "slice the batches of the arrays in the thread that reads them, without the autotuner"
    ),
    LoaderCache: "create each batch once, and cache it in memory",
    LoaderProcesses: "create the batches in {processes} processes, in the same order",
    LoaderWorkers: "create the batches in {workers} threads, in the same order",
    TfFunction: "run the training step as a tf.function",
    TensorArguments: "pass {argument_names} to the training step as tensors",
    ArrayArguments: "copy {argument_names} into a tensor only if its values have changed",
    ReduceRetracing: "trace the training step once for all shapes",
    ReuseIterator: "let fit, evaluate and predict read arrays through a reused iterator",
    LayersInInput: "run {layer_names} in the input pipeline, not in the training step",
    MapOnDevice: "run the last maps of the input pipeline in the training step, on its device",
    PadArguments: "pad arguments of the training step to lengths that are multiples of {multiple}",
    PadLengths: "pad batches to lengths that are multiples of {multiple}",
    StepsPerExecution: "run {steps} training steps for each call from Python",
    LargerBatch: (
        "train on {batch_multiplier} batches in one, with {learning_rate_multiplier:.3g} times the "
        "learning rate"
    ),
    FlatUpdates: "update all small weights as one vector, with the optimizer's own update",
    MicroBatches: "split each batch into micro-batches, and update once",
    RecomputeActivations: "recompute activations in the backward pass, in {segments} segments",
    FusedUpdates: "update each weight with one TensorFlow kernel",
    RowUpdates: "read and update only the table rows that a batch looks up",
    VectorizedMapFn: "vectorize tf.map_fn over all elements",
    JitCompile: "compile the training step with XLA",
    JitCompileOff: "run the training step without XLA",
    AsyncCheckpoint: "write checkpoints asynchronously, from copies, while the training continues",
    IntraOpThreads: "run each kernel on at most {threads} thread(s)",
    KeepFreedMemory: "keep freed memory, and reuse it",
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
    text = EDIT_TEXTS[type(edit)].format_map(
        {name: _shortened(value) for name, value in values.items()}
    )
    float32_layers = _shortened(edit.float32_layers) if isinstance(edit, DtypePolicy) else ""
    return f"{text}, but not in {float32_layers}" if float32_layers else text


def _shortened(value: object) -> object:
    """Names as a list; of many the first, and how many more."""
    if not isinstance(value, tuple):
        return value
    return shorten_list([str(name) for name in value])
