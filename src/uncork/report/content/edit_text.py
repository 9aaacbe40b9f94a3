"""Edits and guarantees in words."""

from __future__ import annotations

from typing import Final

import msgspec

from uncork.core.base.errors import shorten_list
from uncork.core.edits.edit import Edit, Guarantee, ValidationInput
from uncork.core.edits.step import DtypePolicy

GUARANTEE_TEXTS: Final[dict[Guarantee, str]] = {
    "exact": "same elements, same order, same weights, bit for bit",
    "rounding": "same mathematics, other rounding",
    "resampled": "same distribution, other random draws",
    "precision": "another precision inside, same training to the noise",
    "training": "another training, with your consent: no worse on samples laid aside",
}

# By the type of an edit in JSON.
EDIT_TEXTS: Final[dict[str, str]] = {
    "split_map": "split the map at stage {stage}: first what repeats itself, then the rest",
    "cache": "keep the elements after stage {stage} in memory",
    "disk_cache": "keep the elements after stage {stage} in files in {folder}",
    "drop_unused": "make below stage {stage} only what it looks at",
    "decode_and_crop": "decode at stage {stage} only what is cropped from each JPEG image",
    "filter_first": "drop elements at stage {stage} before the maps below it, not after",
    "shuffle_first": "shuffle at stage {stage} before the maps below it, not after",
    "vectorize_map": "call the map at stage {stage} once for a whole batch",
    "parallel_map": "run the map at stage {stage} on several elements at once, order kept",
    "draw_first": (
        "draw what the map at stage {stage} goes by, then do its work on several elements"
    ),
    "inline_map": "run the map at stage {stage} in the thread that asks for its elements",
    "parallel_interleave": "read the inputs of stage {stage} side by side, order kept",
    "read_ahead": (
        "read {readers} inputs of stage {stage} side by side, and hold "
        "{elements_per_reader} of each"
    ),
    "less_ahead": "leave to TensorFlow how much stage {stage} prepares ahead",
    "prefetch": "prepare batches while the device works on the one before",
    "rebatch": "put {batch_multiplier} batches together at the end, to {batch_size} samples",
    "gather_last": "let numbers of rows go through the pipeline, and gather the rows at its end",
    "autotune_off": "run without tf.data's autotuner",
    "py_function_cache": "call the Python code of the map at stage {stage} once for each element",
    "generator_cache": "run the generator at stage {stage} once and keep in memory what it yields",
    "generator_chunks": (
        "take {max_elements} elements at a time over from the generator at stage {stage}"
    ),
    "array_feed": (
        "cut the batches of the arrays in the thread that reads them, without the autotuner"
    ),
    "loader_cache": "make each batch once and keep it in memory",
    "loader_processes": "let {processes} processes make the batches, handed over in their order",
    "loader_workers": "let {workers} threads make the batches, handed over in their order",
    "tf_function": "run the training step as a tf.function",
    "tensor_arguments": "hand {argument_names} to the training step as tensors",
    "array_arguments": (
        "copy {argument_names} into a tensor only where it holds other numbers than before"
    ),
    "reduce_retracing": "trace the training step for all shapes at once",
    "reuse_iterator": "let fit, evaluate and predict read arrays through an iterator that is kept",
    "layers_in_input": "run {layer_names} in the input pipeline, not in the training step",
    "map_on_device": "do the last maps of the input pipeline in the training step, on its device",
    "pad_arguments": (
        "fill arguments of the training step up, to lengths of multiples of {multiple}"
    ),
    "pad_lengths": "fill batches up, so that their lengths are multiples of {multiple}",
    "steps_per_execution": "run {steps} training steps for each call from Python",
    "larger_batch": (
        "train on {batch_multiplier} batches in one, the learning rate times "
        "{learning_rate_multiplier:.3g}"
    ),
    "flat_updates": "update all small weights as one vector, by the optimizer's own update",
    "micro_batches": "go through each batch in parts, and update once",
    "recompute_activations": "run the model again for the backward pass, in {segments} segments",
    "fused_updates": "update each weight by one kernel of TensorFlow's",
    "row_updates": "read and update only those rows of tables that a batch looks up",
    "maps_at_once": "run tf.map_fn over all elements at once",
    "jit_compile": "compile the training step with XLA",
    "jit_compile_off": "run the training step without XLA",
    "async_checkpoint": "write checkpoints in a thread, from copies, while the training goes on",
    "intra_op_threads": "run each kernel on at most {threads} thread(s)",
    "keep_freed_memory": "keep memory that is freed, and hand it out again",
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
    said = text.format_map({name: _said(value) for name, value in values.items()})
    kept = _said(edit.float32_layers) if isinstance(edit, DtypePolicy) else ""
    return f"{said}, but not in {kept}" if kept else said


def _said(value: object) -> object:
    """Names as a list; of many the first, and how many more."""
    if not isinstance(value, tuple):
        return value
    return shorten_list([str(name) for name in value])
