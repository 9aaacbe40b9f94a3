"""Stages that do more at once, or less ahead, than they were told to.

Edits of a map by itself: what it does in one piece, it does in two, or at once.

What edits do to Python in a pipeline: what it makes is kept.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import (
    DecodeAndCrop,
    DrawFirst,
    GeneratorCache,
    ParallelMap,
    PyFunctionCache,
    SplitMap,
)
from uncork.core.evidence.stage import AUTOTUNE
from uncork.measure.machine.probe import usable_cpus
from uncork.pipeline.analysis.concurrency import (
    configured_prefetched_elements,
    max_interleave_readers,
)
from uncork.pipeline.analysis.legality import has_ignored_errors, is_inlined, is_synchronous
from uncork.pipeline.functions.draw_split import RandomSplit, split_off_draws
from uncork.pipeline.functions.effects import can_overlap
from uncork.pipeline.functions.splitting import (
    MapSplit,
    split_deterministic_prefix,
    split_narrow_prefix,
)
from uncork.pipeline.ir.builders import derive_map_function, parallel_interleave, parallel_map
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.parallel_calls import PARALLEL_CALLS_FIELD
from uncork.pipeline.ir.python_functions import (
    has_memoized_python,
    has_wrapped_generator,
    memoize_python_calls,
    python_digest,
    user_generator_of,
)
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.transforms.partial_decode import find_partial_decode
from uncork.pycode.frames.dataset_lines import source_line_fields
from uncork.pycode.purity.memoized_generator import MemoizedGenerator
from uncork.pycode.purity.reachability import function_digest


def apply_parallel_interleave(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
    """A serial interleave with a thread for each of the inputs that are open at once.

    In parallel, an element that fails takes its input's turn; otherwise it does not.

    Raises:
        EditRefused: It is none, its inputs may not be read side by side, or errors are ignored.
    """
    if has_ignored_errors(pipeline, stage):
        raise EditRefused(
            f"errors of {node} are ignored further up, and in parallel others follow a bad element",
            "errors that end the pass",
            "leave it serial",
        )
    cycle = max_interleave_readers(node)
    if cycle is None:
        raise EditRefused(
            f"{node} is no interleave whose inputs could be read in parallel",
            "a serial one of several inputs that draw no random numbers and keep no state",
            "leave it serial",
        )
    return parallel_interleave(node.inputs[0].dataset, node.dataset, cycle)


def reduce_prefetching(node: Node) -> Dataset:
    """A prefetch or a parallel map that prepares as much as its threads need, not as it was told.

    Raises:
        EditRefused: It was told nothing.
    """
    dataset, fields = node.dataset, {}
    if node.kind == "prefetch" and configured_prefetched_elements(node) is not None:
        fields["_buffer_size"] = tf.constant(AUTOTUNE, tf.int64)
    elif (
        node.kind == "map"
        and hasattr(dataset, PARALLEL_CALLS_FIELD)
        and node.parallelism != AUTOTUNE
    ):
        # A machine with more cores leaves more calls, up to those that were asked for.
        fields[PARALLEL_CALLS_FIELD] = tf.constant(
            min(node.parallelism or 1, math.ceil(usable_cpus())), tf.int64
        )
    else:
        raise EditRefused(
            f"{node} was not told how much to prepare ahead",
            "a prefetch or a parallel map with a number",
            "leave it as it is",
        )
    return copy_with_fields(dataset, [node.inputs[0].dataset], kind_of(dataset), **fields)


def apply_py_function_cache(node: Node, edit: PyFunctionCache) -> Dataset:
    """A map whose Python functions are called once for each thing they are asked.

    Raises:
        EditRefused: It calls other code, or keeps the answers already.
    """
    function = node.functions[0]
    found = python_digest(function)
    if not found or found != edit.code_digest:
        raise EditRefused(
            f"the Python code that {node} calls has digest {found or 'none'}",
            f"{edit.code_digest}, of code that was seen to depend on what it is asked alone",
            "run 'uncork tune' again",
        )
    if has_memoized_python(node):
        raise EditRefused(f"{node} keeps what it was told already", "one that does not", "keep it")
    kept = derive_map_function(
        node.dataset._map_func, memoize_python_calls(function, edit.size_bytes)
    )
    return copy_with_fields(
        node.dataset, [node.inputs[0].dataset], kind_of(node.dataset), _map_func=kept
    )


def apply_generator_cache(node: Node, edit: GeneratorCache) -> Dataset:
    """A generator that is run once.

    Raises:
        EditRefused: It is another one, or kept already.
    """
    function = user_generator_of(node)
    found = "" if function is None else function_digest(function)
    if function is None or found != edit.code_digest:
        raise EditRefused(
            f"the generator behind {node} has digest {found or 'none'}",
            f"{edit.code_digest}, of one that was seen to yield the same each time",
            "run 'uncork tune' again",
        )
    if has_memoized_python(node) or has_wrapped_generator(node):
        raise EditRefused(f"{node} is rewritten already", "one that is not", "keep it")
    spec, kept = node.dataset.element_spec, MemoizedGenerator(function, edit.size_bytes)
    made = tf.data.Dataset.from_generator(kept, output_signature=spec, name=node.dataset._name)
    vars(made).update(source_line_fields(node.dataset))
    return made


MapEdit = SplitMap | ParallelMap | DrawFirst | DecodeAndCrop | PyFunctionCache


def apply_map_edit(edit: MapEdit, node: Node) -> Dataset:
    """What gives the elements of a map instead of it.

    Raises:
        EditRefused: The map is not what the edit is for.
    """
    match edit:
        case SplitMap():
            return _split_map(node)
        case ParallelMap():
            return _parallel(node)
        case DrawFirst():
            return _draw_first(node)
        case DecodeAndCrop():
            return _part_decoded(node)
        case PyFunctionCache():
            return apply_py_function_cache(node, edit)


def _split_map(node: Node) -> Dataset:
    check_not_synchronous(node)
    cut = split_deterministic_prefix(node.functions[0]) or split_narrow_prefix(node.functions[0])
    if cut is None:
        raise EditRefused(
            f"{node} has no part to cut off that would be worth keeping by itself",
            "deterministic ops before the first random one, or before a cast to a wider dtype",
            "leave the map whole",
        )
    return create_rest_map(node, cut, create_prefix_map(node, cut))


def create_prefix_map(node: Node, cut: MapSplit) -> Dataset:
    """The deterministic part as a parallel map of its own; order kept, so it is exact."""
    function = derive_map_function(node.dataset._map_func, cut.prefix, cut.specs)
    return parallel_map(node.inputs[0].dataset, function, node.dataset)


def create_rest_map(node: Node, cut: MapSplit, input_dataset: Dataset) -> Dataset:
    """The rest, run as the whole was: a serial map stays serial, so its draws keep their order."""
    rest = derive_map_function(node.dataset._map_func, cut.rest)
    return copy_with_fields(node.dataset, [input_dataset], kind_of(node.dataset), _map_func=rest)


def _draw_first(node: Node) -> Dataset:
    check_not_synchronous(node)
    cut = split_off_draws(node.functions[0]) if node.parallelism == 1 else None
    if cut is None:
        raise EditRefused(
            f"{node} has no work apart from what it draws",
            "a serial map that draws random numbers, and goes by them",
            "leave the map whole",
        )
    work = derive_map_function(node.dataset._map_func, cut.work_function)
    return parallel_map(create_draw_map(node, cut, node.inputs[0].dataset), work, node.dataset)


def create_draw_map(node: Node, cut: RandomSplit, input_dataset: Dataset) -> Dataset:
    """The draws as a map of their own, run as the whole was: in the same order."""
    draws = derive_map_function(node.dataset._map_func, cut.draw_function, cut.specs)
    return copy_with_fields(node.dataset, [input_dataset], kind_of(node.dataset), _map_func=draws)


def _part_decoded(node: Node) -> Dataset:
    part = find_partial_decode(node)
    if part is None:
        raise EditRefused(
            f"{node} crops no JPEG image that it decodes, or that the map below it does",
            "a crop of what was decoded, by numbers that do not depend on its pixels",
            "leave it as it is",
        )
    fields: dict[str, Any] = {"_map_func": part.function}
    if is_inlined(node):  # what chooses between two ways is not run in the thread that asks
        fields |= {"_use_inter_op_parallelism": True, "_force_synchronous": False}
    return copy_with_fields(
        node.dataset, [part.input_node.dataset], kind_of(node.dataset), **fields
    )


def check_not_synchronous(node: Node) -> None:
    """Refuse to read ahead where the map's author wants no element made before it is asked for.

    Raises:
        EditRefused: It is such a map.
    """
    if is_synchronous(node):
        raise EditRefused(f"{node} was made synchronous on purpose", "a plain map", "keep it")


def _parallel(node: Node) -> Dataset:
    if node.kind != "map" or node.parallelism != 1:
        raise EditRefused(f"{node} is parallel already", "a serial map", "keep it")
    check_not_synchronous(node)
    if not can_overlap(node.functions[0]):
        raise EditRefused(
            f"{node} keeps state or runs Python; in parallel its calls would come in another order",
            "a function whose calls do not depend on each other",
            "split it first",
        )
    below = node.inputs[0].dataset
    return parallel_map(below, node.dataset._map_func, node.dataset)
