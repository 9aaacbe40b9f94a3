"""Edits of a single stage: parallel calls, less prefetching, split maps, memoized Python."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_fields import has_parameter, parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields
from uncork.compat.tfdata.structured_function import derive_map_function
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import GeneratorCache, PyFunctionCache
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
from uncork.pipeline.ir.builders import parallel_interleave, parallel_map
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import (
    has_memoized_python,
    has_wrapped_generator,
    memoize_python_calls,
    python_digest,
    user_generator_of,
)
from uncork.pipeline.ir.tree import StageLocation
from uncork.pipeline.transforms.partial_decode import find_partial_decode
from uncork.pycode.frames.dataset_lines import source_line_fields
from uncork.pycode.purity.memoized_generator import MemoizedGenerator
from uncork.pycode.purity.reachability import function_digest


def apply_parallel_interleave(place: StageLocation) -> Dataset:
    """A serial interleave as a parallel one, with a thread for each open input.

    In parallel, a failing element uses up the turn of its input; in a serial one it does not.

    Raises:
        EditRefused: It is not an interleave, its inputs depend on their order, or errors are
            ignored.
    """
    node = place.node
    if has_ignored_errors(*place):
        raise EditRefused(
            f"errors of {node} are ignored downstream, and in parallel other elements follow "
            "a failing one",
            "errors that end the pass",
            "keep it serial",
        )
    cycle = max_interleave_readers(node)
    if cycle is None:
        raise EditRefused(
            f"{node} is not an interleave whose inputs can be read in parallel",
            "a serial interleave of several inputs without random numbers and state",
            "keep it serial",
        )
    return parallel_interleave(node.inputs[0].dataset, node.dataset, cycle)


def reduce_prefetching(node: Node) -> Dataset:
    """A prefetch or a parallel map without its fixed number of elements or calls.

    Raises:
        EditRefused: It has no fixed number.
    """
    dataset, fields = node.dataset, {}
    if node.kind == "prefetch" and configured_prefetched_elements(node) is not None:
        fields["buffer_size"] = tf.constant(AUTOTUNE, tf.int64)
    elif (
        node.kind == "map"
        and has_parameter(dataset, "num_parallel_calls")
        and node.parallelism != AUTOTUNE
    ):
        # A machine with more cores leaves more calls, up to those that were asked for.
        fields["num_parallel_calls"] = tf.constant(
            min(node.parallelism or 1, math.ceil(usable_cpus())), tf.int64
        )
    else:
        raise EditRefused(
            f"{node} has no fixed number of elements to prefetch",
            "a prefetch or a parallel map with a fixed number",
            "keep it unchanged",
        )
    return copy_with_fields(dataset, [node.inputs[0].dataset], kind_of(dataset), **fields)


def apply_py_function_cache(node: Node, edit: PyFunctionCache) -> Dataset:
    """A map whose Python functions are memoized.

    Raises:
        EditRefused: It calls other code, or is memoized already.
    """
    function = node.functions[0]
    found = python_digest(function)
    if not found or found != edit.code_digest:
        raise EditRefused(
            f"the Python code that {node} calls has digest {found or 'none'}",
            f"{edit.code_digest}, of code that depends only on its arguments",
            "run 'uncork tune' again",
        )
    if has_memoized_python(node):
        raise EditRefused(f"{node} is memoized already", "a map that is not memoized", "keep it")
    kept = derive_map_function(
        parameter(node.dataset, "map_func"), memoize_python_calls(function, edit.size_bytes)
    )
    return copy_with_fields(
        node.dataset, [node.inputs[0].dataset], kind_of(node.dataset), map_func=kept
    )


def apply_generator_cache(node: Node, edit: GeneratorCache) -> Dataset:
    """A generator that runs once, and whose elements are memoized.

    Raises:
        EditRefused: It is another generator, or memoized already.
    """
    function = user_generator_of(node)
    found = "" if function is None else function_digest(function)
    if function is None or found != edit.code_digest:
        raise EditRefused(
            f"the generator behind {node} has digest {found or 'none'}",
            f"{edit.code_digest}, of a generator that yields the same elements each time",
            "run 'uncork tune' again",
        )
    if has_memoized_python(node) or has_wrapped_generator(node):
        raise EditRefused(f"{node} is rewritten already", "a generator that is not", "keep it")
    spec, kept = node.dataset.element_spec, MemoizedGenerator(function, edit.size_bytes)
    made = tf.data.Dataset.from_generator(
        kept, output_signature=spec, name=parameter(node.dataset, "name")
    )
    vars(made).update(source_line_fields(node.dataset))
    return made


def split_map(node: Node) -> Dataset:
    """A map as two: first what repeats itself, or is narrow, then the rest.

    Raises:
        EditRefused: It has no such part.
    """
    check_not_synchronous(node)
    cut = split_deterministic_prefix(node.functions[0]) or split_narrow_prefix(node.functions[0])
    if cut is None:
        raise EditRefused(
            f"{node} has no first part that is worth caching separately",
            "deterministic ops before the first random one, or before a cast to a wider dtype",
            "keep the map whole",
        )
    return create_rest_map(node, cut, create_prefix_map(node, cut))


def create_prefix_map(node: Node, cut: MapSplit) -> Dataset:
    """The deterministic part as a separate parallel map; it keeps the order, so it is exact."""
    function = derive_map_function(parameter(node.dataset, "map_func"), cut.prefix, cut.specs)
    return parallel_map(node.inputs[0].dataset, function, node.dataset)


def create_rest_map(node: Node, cut: MapSplit, input_dataset: Dataset) -> Dataset:
    """The rest, run like the original: serial stays serial, so its random numbers stay equal."""
    rest = derive_map_function(parameter(node.dataset, "map_func"), cut.rest)
    return copy_with_fields(node.dataset, [input_dataset], kind_of(node.dataset), map_func=rest)


def draw_first(node: Node) -> Dataset:
    """A map as two: its random draws, in order, then its work in parallel.

    Raises:
        EditRefused: It has no work apart from its draws, or is parallel.
    """
    check_not_synchronous(node)
    cut = split_off_draws(node.functions[0]) if node.parallelism == 1 else None
    if cut is None:
        raise EditRefused(
            f"{node} does no work besides sampling random numbers",
            "a serial map that samples random numbers and uses them",
            "keep the map whole",
        )
    work = derive_map_function(parameter(node.dataset, "map_func"), cut.work_function)
    return parallel_map(create_draw_map(node, cut, node.inputs[0].dataset), work, node.dataset)


def create_draw_map(node: Node, cut: RandomSplit, input_dataset: Dataset) -> Dataset:
    """The random ops as a separate map, run like the original: in the same order."""
    draws = derive_map_function(parameter(node.dataset, "map_func"), cut.draw_function, cut.specs)
    return copy_with_fields(node.dataset, [input_dataset], kind_of(node.dataset), map_func=draws)


def decode_cropped_part(node: Node) -> Dataset:
    """A map that decodes of each JPEG image only the part that it crops.

    Raises:
        EditRefused: It crops no image that it, or the map below it, decodes.
    """
    part = find_partial_decode(node)
    if part is None:
        raise EditRefused(
            f"{node} crops no JPEG image that it decodes, or that the map before it decodes",
            "a crop of the decoded image at a position that does not depend on its pixels",
            "keep it unchanged",
        )
    fields: dict[str, Any] = {"map_func": part.function}
    if is_inlined(node):  # what chooses between two ways is not run in the thread that asks
        fields |= {"use_inter_op_parallelism": True, "force_synchronous": False}
    return copy_with_fields(
        node.dataset, [part.input_node.dataset], kind_of(node.dataset), **fields
    )


def check_not_synchronous(node: Node) -> None:
    """Refuse to prefetch where the map's author wants no element computed before it is read.

    Raises:
        EditRefused: It is such a map.
    """
    if is_synchronous(node):
        raise EditRefused(
            f"{node} was made synchronous on purpose", "a map that is not synchronous", "keep it"
        )


def run_map_in_parallel(node: Node) -> Dataset:
    """A serial map as a parallel one.

    Raises:
        EditRefused: It is parallel already, or its calls depend on each other.
    """
    if node.kind != "map" or node.parallelism != 1:
        raise EditRefused(f"{node} is parallel already", "a serial map", "keep it")
    check_not_synchronous(node)
    if not can_overlap(node.functions[0]):
        raise EditRefused(
            f"{node} keeps state or runs Python; in parallel, its calls would come in another "
            "order",
            "a function whose calls do not depend on each other",
            "split the map first",
        )
    below = node.inputs[0].dataset
    return parallel_map(below, parameter(node.dataset, "map_func"), node.dataset)
