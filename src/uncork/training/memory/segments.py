"""Divides a model into segments, so that only one holds its activations at a time.

Keras runs a Sequential or functional model node by node, in an order that it stores. A cut between
two nodes costs what both sides share: the tensors made before it that are used behind it. Between
the blocks of a residual network that is one, within them two. So cuts are looked for where little
is shared, in about equal distances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import keras

from uncork.compat.keras3.functional import Functional, functional_in, nodes_of
from uncork.compat.keras3.layers import flatten_layers
from uncork.compat.keras3.model_state import strategy_of
from uncork.training.state.snapshot import find_untracked_variables

# A segment is at least so much of what it may be: the least shared is looked for in between.
_LEAST: Final = 0.5


class Segment(NamedTuple):
    """Some of a model's nodes, that are run one behind the other.

    Attributes:
        nodes: Of Keras's, in their order.
        sources: Tensors of Keras's that are made before it and used in it.
        targets: Those that are made in it and used behind it.
        is_recomputed: It is to be run again in the backward pass.
    """

    nodes: list[Any]
    sources: list[Any]
    targets: list[Any]
    is_recomputed: bool


class ModelSegments(NamedTuple):
    """A model, and those in it that are cut themselves, each with its segments."""

    segmented_functions: list[tuple[Any, list[Segment]]]

    @property
    def recomputed_count(self) -> int:
        """Segments that are run again."""
        return sum(
            each.is_recomputed for _, segments in self.segmented_functions for each in segments
        )


def cut_into_segments(model: Any, segments: int) -> ModelSegments:
    """A model's segments: the last is kept whole, those before it are run again.

    Args:
        model: Sequential or functional, built.
        segments: As a share, what each may hold of what all layers give.

    Example:
        >>> layers = keras.layers
        >>> model = keras.Sequential([keras.Input((8,)), *(layers.Dense(8) for _ in range(6))])
        >>> [len(each.nodes) for each in cut_into_segments(model, 3).segmented_functions[0][1]]
        [2, 2, 2]
        >>> cut_into_segments(model, 3).recomputed_count
        2
    """
    function = keras_function_of(model)
    assert function is not None
    found: list[tuple[Any, list[Segment]]] = []
    goal = sum(_bytes_of(node) for node in _order(function)) / segments
    _cut(function, goal, goal, found)
    return ModelSegments(found)


def count_recomputed_segments(model: Any, segments: int) -> int:
    """How many of a model's segments are run again, none of them larger than one of so many.

    Args:
        model: One that :func:`recompute_refusal` has nothing against.
        segments: As of :func:`cut_into_segments`.

    Example:
        >>> layers = keras.layers
        >>> model = keras.Sequential([keras.Input((8,)), *(layers.Dense(8) for _ in range(6))])
        >>> count_recomputed_segments(model, 2), count_recomputed_segments(model, 6)
        (1, 5)
    """
    return cut_into_segments(model, segments).recomputed_count


def recompute_refusal(model: Any) -> str | None:
    """Why a model cannot recompute activations; None if no reason is known.

    Args:
        model: Built and compiled.

    Example:
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, name="only")])
        >>> model.compile("sgd", "mse")
        >>> recompute_refusal(model)
        'no layer boundary divides the model into segments'
    """
    return next(_reasons(model), None)


def _reasons(model: Any) -> Iterator[str]:
    if type(model).train_step is not keras.Model.train_step:
        yield "the model overrides train_step"
    if strategy_of(model) is not None:
        yield "the model trains under a tf.distribute strategy"
    if model.optimizer is None or not model.trainable_weights:
        yield "the model has no trainable weights"
    for name, _ in find_untracked_variables(model):
        yield f"a layer has a tf.Variable that its call may change: {name}"
    function = keras_function_of(model)
    if function is None:
        yield (
            f"{type(model).__name__} overrides call, and Uncork cannot divide such a model "
            "into segments"
        )
    elif not cut_into_segments(model, sum(1 for _ in _all(function))).recomputed_count:
        yield "no layer boundary divides the model into segments"


def keras_function_of(operation: Any) -> Any | None:
    """What runs the nodes of a Sequential or functional model; None of anything else.

    Example:
        >>> keras_function_of(keras.layers.Dense(1)) is None
        True
    """
    if isinstance(operation, keras.Sequential):
        plain = type(operation).call is keras.Sequential.call
        return functional_in(operation) if plain and operation.built else None
    plain = isinstance(operation, Functional) and type(operation).call is Functional.call
    return operation if plain else None


def _cut(function: Any, goal: float, kept: float, found: list[tuple[Any, list[Segment]]]) -> float:
    """From the end on, as the last segments need not be run again.

    Args:
        function: To be cut, with all in it that is too large for a segment.
        goal: Bytes of a segment at most.
        kept: Bytes that may be held at the end without being made again.
        found: Where the segments of each function are put.

    Returns:
        What is left of the bytes that may be kept.
    """
    nodes = _order(function)
    ends: list[tuple[int, int, bool]] = []
    end = len(nodes)
    while end:
        inside = keras_function_of(nodes[end - 1].operation)
        if _stands_alone(nodes[end - 1], goal):
            if inside is not None and all(inside is not known for known, _ in found):
                kept = _cut(inside, goal, kept, found)
            ends.append((end - 1, end, False))
        else:
            begin, size = _begin(function, nodes, end, goal)
            again = size > kept
            kept -= 0 if again else size
            ends.append((begin, end, again))
        end = ends[-1][0]
    found.append((function, [_segment(function, nodes, *each) for each in reversed(ends)]))
    return kept


def _begin(function: Any, nodes: list[Any], end: int, goal: float) -> tuple[int, float]:
    """Where the segment begins that ends there, and its bytes: where least is shared."""
    size, best, at = 0.0, math.inf, (end - 1, 0.0)
    for begin in range(end - 1, -1, -1):
        more = _bytes_of(nodes[begin])
        if _stands_alone(nodes[begin], goal) or (begin < end - 1 and size + more > goal):
            break
        size += more
        shared = _shared(function, nodes, begin)
        is_long = size >= _LEAST * goal
        if not is_long or shared <= best:
            best, at = shared if is_long else best, (begin, size)
    return at


def _shared(function: Any, nodes: list[Any], begin: int) -> int:
    """Bytes that are made before a node and used from there on; what came in is there anyway."""
    made = {id(each) for node in nodes[begin:] for each in node.outputs}
    made |= {id(each) for each in function.inputs}
    used = {id(each): each for node in nodes[begin:] for each in node.input_tensors}
    used |= {id(each): each for each in function.outputs}
    return sum(_bytes(each) for at, each in used.items() if at not in made)


def _segment(function: Any, nodes: list[Any], begin: int, end: int, again: bool) -> Segment:
    made = {id(each): each for node in nodes[begin:end] for each in node.outputs}
    before = {id(each): each for node in nodes[begin:end] for each in node.input_tensors}
    used = {id(each) for node in nodes[end:] for each in node.input_tensors}
    used |= {id(each) for each in function.outputs}
    return Segment(
        nodes=nodes[begin:end],
        sources=[each for at, each in before.items() if at not in made],
        targets=[each for at, each in made.items() if at in used],
        is_recomputed=again,
    )


def _order(function: Any) -> list[Any]:
    """Its nodes as Keras runs them."""
    return [node for node in nodes_of(function) if node.operation and not node.is_input]


def _all(function: Any) -> Iterator[Any]:
    """Its nodes, those of the models in it among them."""
    for node in _order(function):
        inside = keras_function_of(node.operation)
        yield from [node] if inside is None else _all(inside)


def _stands_alone(node: Any, goal: float) -> bool:
    """A model that is cut itself, or a table: its gradient comes in rows, which are few."""
    tables = any(
        isinstance(each, keras.layers.Embedding) for each in nested_layers_of(node.operation)
    )
    if keras_function_of(node.operation) is None:
        return tables
    return tables or _bytes_of(node) > goal


def nested_layers_of(operation: Any) -> list[Any]:
    """An operation with all layers in it; none where it is no layer."""
    return flatten_layers(operation) if isinstance(operation, keras.Layer) else []


def _bytes_of(node: Any) -> int:
    """What it gives, and what is given within it, for one example."""
    function = keras_function_of(node.operation)
    inside = 0 if function is None else sum(_bytes_of(each) for each in _order(function))
    return inside or sum(_bytes(each) for each in node.outputs)


def _bytes(tensor: Any) -> int:
    """For one example, what is unknown of its shape left out."""
    bits = "".join(each for each in str(tensor.dtype) if each.isdigit())
    numbers: int = math.prod(size or 1 for size in tensor.shape[1:])
    return numbers * (int(bits) if bits else 8) // 8
