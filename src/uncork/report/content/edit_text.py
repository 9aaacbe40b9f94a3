"""Edits and guarantees in words."""

from __future__ import annotations

from typing import Final

import msgspec

from uncork.core.base.errors import shorten_list
from uncork.core.edits.edit import Edit, Guarantee, ValidationInput
from uncork.core.edits.step import DtypePolicy

GUARANTEE_TEXTS: Final[dict[Guarantee, str]] = {
    "exact": "same elements, same order, same weights, bit for bit",
    "rounding": "same mathematics, different rounding",
    "resampled": "same distribution, different random numbers",
    "precision": "different precision inside, same training within its noise",
    "training": "a different training, opt-in: no worse on held-out samples",
}

# By the type of an edit in JSON.
EDIT_TEXTS: Final[dict[str, str]] = {
    "split_map": "split the map at stage {stage} into its deterministic part and the rest",
    "cache": "cache the elements after stage {stage} in memory",
    "disk_cache": "cache the elements after stage {stage} in files in {folder}",
    "drop_unused": "compute upstream of stage {stage} only what it uses",
    "decode_and_crop": "decode at stage {stage} only the crop of each JPEG image",
    "filter_first": "drop elements at stage {stage} before the maps upstream of it, not after them",
    "shuffle_first": "shuffle at stage {stage} before the maps upstream of it, not after them",
    "vectorize_map": "vectorize the map at stage {stage} over a whole batch",
    "parallel_map": "run the map at stage {stage} in parallel, in the same order",
    "draw_first": (
        "sample the random numbers of the map at stage {stage} first, then do its work in parallel"
    ),
    "inline_map": "run the map at stage {stage} in the thread that requests its elements",
    "parallel_interleave": "read the inputs of stage {stage} in parallel, in the same order",
    "read_ahead": (
        "read {readers} inputs of stage {stage} in parallel, and buffer {elements_per_reader} "
        "elements of each"
    ),
    "less_ahead": "let TensorFlow choose how much stage {stage} prefetches",
    "prefetch": "prepare batches while the device works on the previous one",
    "rebatch": "combine {batch_multiplier} batches at the end, to {batch_size} samples",
    "gather_last": "pass row indices through the pipeline, and gather the rows at its end",
    "autotune_off": "run without tf.data's autotuner",
    "py_function_cache": (
        "call the Python code of the map at stage {stage} only once for each element"
    ),
    "generator_cache": (
        "run the generator at stage {stage} once, and cache what it yields in memory"
    ),
    "generator_chunks": (
        "take {max_elements} elements at a time from the generator at stage {stage}"
    ),
    "array_feed": (
        "slice the batches of the arrays in the thread that reads them, without the autotuner"
    ),
    "loader_cache": "create each batch once, and cache it in memory",
    "loader_processes": "create the batches in {processes} processes, in the same order",
    "loader_workers": "create the batches in {workers} threads, in the same order",
    "tf_function": "run the training step as a tf.function",
    "tensor_arguments": "pass {argument_names} to the training step as tensors",
    "array_arguments": "copy {argument_names} into a tensor only if its values have changed",
    "reduce_retracing": "trace the training step once for all shapes",
    "reuse_iterator": "let fit, evaluate and predict read arrays through a reused iterator",
    "layers_in_input": "run {layer_names} in the input pipeline, not in the training step",
    "map_on_device": "run the last maps of the input pipeline in the training step, on its device",
    "pad_arguments": (
        "pad arguments of the training step to lengths that are multiples of {multiple}"
    ),
    "pad_lengths": "pad batches to lengths that are multiples of {multiple}",
    "steps_per_execution": "run {steps} training steps for each call from Python",
    "larger_batch": (
        "train on {batch_multiplier} batches in one, with {learning_rate_multiplier:.3g} times the "
        "learning rate"
    ),
    "flat_updates": "update all small weights as one vector, with the optimizer's own update",
    "micro_batches": "split each batch into micro-batches, and update once",
    "recompute_activations": "recompute activations in the backward pass, in {segments} segments",
    "fused_updates": "update each weight with one TensorFlow kernel",
    "row_updates": "read and update only the table rows that a batch looks up",
    "maps_at_once": "vectorize tf.map_fn over all elements",
    "jit_compile": "compile the training step with XLA",
    "jit_compile_off": "run the training step without XLA",
    "async_checkpoint": (
        "write checkpoints asynchronously, from copies, while the training continues"
    ),
    "intra_op_threads": "run each kernel on at most {threads} thread(s)",
    "keep_freed_memory": "keep freed memory, and reuse it",
    "keras_backend": "run on Keras's {backend} backend",
    "dtype_policy": "compute in {policy}",
    "validation_input": "for the validation data: {parts}",
}


def describe_edit(edit: Edit) -> str:
    """One edit as a sentence.

    Example:
        >>> from uncork.core.edits.step import StepsPerExecution
        >>> describe_edit(StepsPerExecution(steps=32))
        'run 32 training steps for each call from Python'
    """
    text = EDIT_TEXTS[str(edit.__struct_config__.tag)]
    if isinstance(edit, ValidationInput):
        return text.format(parts="; ".join(map(describe_edit, edit.edits)))
    values = msgspec.structs.asdict(edit)
    text = text.format_map({name: _shortened(value) for name, value in values.items()})
    float32_layers = _shortened(edit.float32_layers) if isinstance(edit, DtypePolicy) else ""
    return f"{text}, but not in {float32_layers}" if float32_layers else text


def _shortened(value: object) -> object:
    """Names as a list; of many the first, and how many more."""
    if not isinstance(value, tuple):
        return value
    return shorten_list([str(name) for name in value])
