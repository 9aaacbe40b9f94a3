"""Edits of a map by itself: what it does in one piece, it does in two, or at once."""

from __future__ import annotations

from typing import Any

from uncork.core.errors import EditRefused
from uncork.core.pipeline_edit import (
    DecodeAndCrop,
    DrawFirst,
    ParallelMap,
    PyFunctionCache,
    SplitMap,
)
from uncork.pipeline.drawing import Drawn, drawn_first
from uncork.pipeline.effects import may_overlap
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.legality import is_inlined, is_synchronous
from uncork.pipeline.node import Node
from uncork.pipeline.nodes import derived, parallel_map
from uncork.pipeline.part_decoded import part_decoded
from uncork.pipeline.python_edits import keep_calls
from uncork.pipeline.rebuild import make
from uncork.pipeline.splitting import Split, narrow, split

MapEdit = SplitMap | ParallelMap | DrawFirst | DecodeAndCrop | PyFunctionCache


def map_edited(edit: MapEdit, node: Node) -> Dataset:
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
            return keep_calls(node, edit)


def _split_map(node: Node) -> Dataset:
    check_not_synchronous(node)
    cut = split(node.functions[0]) or narrow(node.functions[0])
    if cut is None:
        raise EditRefused(
            f"{node} has no part to cut off that would be worth keeping by itself",
            "deterministic ops before the first random one, or before a cast to a wider dtype",
            "leave the map whole",
        )
    return second_half(node, cut, first_half(node, cut))


def first_half(node: Node, cut: Split) -> Dataset:
    """The deterministic part as a parallel map of its own; order kept, so it is exact."""
    function = derived(node.dataset._map_func, cut.prefix, cut.specs)
    return parallel_map(node.inputs[0].dataset, function, node.dataset)


def second_half(node: Node, cut: Split, below: Dataset) -> Dataset:
    """The rest, run as the whole was: a serial map stays serial, so its draws keep their order."""
    rest = derived(node.dataset._map_func, cut.rest)
    return make(node.dataset, [below], kind_of(node.dataset), _map_func=rest)


def _draw_first(node: Node) -> Dataset:
    check_not_synchronous(node)
    cut = drawn_first(node.functions[0]) if node.parallelism == 1 else None
    if cut is None:
        raise EditRefused(
            f"{node} has no work apart from what it draws",
            "a serial map that draws random numbers, and goes by them",
            "leave the map whole",
        )
    work = derived(node.dataset._map_func, cut.work)
    return parallel_map(drawing_half(node, cut, node.inputs[0].dataset), work, node.dataset)


def drawing_half(node: Node, cut: Drawn, below: Dataset) -> Dataset:
    """The draws as a map of their own, run as the whole was: in the same order."""
    draws = derived(node.dataset._map_func, cut.draw, cut.specs)
    return make(node.dataset, [below], kind_of(node.dataset), _map_func=draws)


def _part_decoded(node: Node) -> Dataset:
    part = part_decoded(node)
    if part is None:
        raise EditRefused(
            f"{node} crops no JPEG image that it decodes, or that the map below it does",
            "a crop of what was decoded, by numbers that do not depend on its pixels",
            "leave it as it is",
        )
    fields: dict[str, Any] = {"_map_func": part.function}
    if is_inlined(node):  # what chooses between two ways is not run in the thread that asks
        fields |= {"_use_inter_op_parallelism": True, "_force_synchronous": False}
    return make(node.dataset, [part.below.dataset], kind_of(node.dataset), **fields)


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
    if not may_overlap(node.functions[0]):
        raise EditRefused(
            f"{node} keeps state or runs Python; in parallel its calls would come in another order",
            "a function whose calls do not depend on each other",
            "split it first",
        )
    below = node.inputs[0].dataset
    return parallel_map(below, node.dataset._map_func, node.dataset)
